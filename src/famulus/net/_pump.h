/* The parts of the native module: each has a file of its own. */
#ifndef FAMULUS_PUMP_H
#define FAMULUS_PUMP_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyType_Spec stream_spec, connections_spec; /* of the types `Stream` and `Connections` */

PyObject *waiting_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
