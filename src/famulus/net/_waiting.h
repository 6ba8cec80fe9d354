/* One wait for an epoll descriptor; `Waiting` says what for. */
#ifndef FAMULUS_WAITING_H
#define FAMULUS_WAITING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *waiting_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
