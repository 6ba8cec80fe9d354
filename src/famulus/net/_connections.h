/* `Connections`, the type; connections_python.py says what it does. */
#ifndef FAMULUS_CONNECTIONS_H
#define FAMULUS_CONNECTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int connections_add_to(PyObject *module);

#endif
