/* `Stream`, the type; stream_python.py says what it does. */
#ifndef FAMULUS_STREAM_H
#define FAMULUS_STREAM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int stream_add_to(PyObject *module);

#endif
