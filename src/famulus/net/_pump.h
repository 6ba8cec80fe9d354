/* The parts of the native module: each has a file of its own. */
#ifndef FAMULUS_PUMP_H
#define FAMULUS_PUMP_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add the types `Stream` and `Connections`: 0, or -1 with an exception set. */
int stream_add_to(PyObject *module);
int connections_add_to(PyObject *module);

PyObject *waiting_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
