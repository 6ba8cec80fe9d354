/* Messages as Python has them: rows of rows of bytes. What the pump and a stream both do with them. */
#ifndef FAMULUS_MESSAGES_H
#define FAMULUS_MESSAGES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { FRAMES_MAX = 16 }; /* as in pump_python.py */

/* Raises for anything but rows of rows of bytes, and if one has more than `most` frames: 0, or -1 with an exception set.
 * After this and until the last send no Python code runs (not even the garbage collector: sending creates no objects), so nobody can change the rows under
 * our feet. */
int messages_check(PyObject *messages, Py_ssize_t most);

/* A frame of so many bytes, copied from `data`; left as it is if `data` is NULL. NULL with an exception set. */
PyObject *messages_frame(const void *data, size_t size);

/* Appends and lets go of `item`, which may be NULL: 0, or -1 with an exception set. */
int messages_append(PyObject *list, PyObject *item);

/* If it is a parcel, appends its messages, each with `peer` (which may be NULL) before it, and gives 1; 0 if it is none; -1
 * with an exception set. */
int messages_append_parcel(PyObject *messages, PyObject *peer, const unsigned char *data, size_t size);

#endif
