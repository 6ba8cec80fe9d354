/* Messages as Python has them: rows of rows of bytes. What the pump and a stream both do with them. */
#ifndef FAMULUS_MESSAGES_H
#define FAMULUS_MESSAGES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { FRAMES_MAX = 16 }; /* as in stream_python.py */
/* As in wire/parcels.py, which has the layout. */
enum { PARCEL_VERSION = 1, PARCEL_MESSAGES_MAX = 1024, PARCEL_BYTES_MAX = 32 * 1024 };

/* Raises for anything but rows of rows of bytes, and if one has more than `most` frames: 0, or -1 with an exception set.
 * After this and until the last send no Python code runs (not even the garbage collector: sending creates no objects),
 * so nobody can change the rows meanwhile. */
int messages_check(PyObject *messages, Py_ssize_t most);

/* A frame of `size` bytes, copied from `data`; uninitialised if `data` is NULL. NULL with an exception set. */
PyObject *messages_frame(const void *data, size_t size);

/* Appends and releases `item`, which may be NULL: 0, or -1 with an exception set. */
int messages_append(PyObject *list, PyObject *item);

/* If it is a parcel, appends its messages, each after `peer` (which may be NULL), and returns 1; 0 if it is not one; -1
 * with an exception set. */
int messages_append_parcel(PyObject *messages, PyObject *peer, const unsigned char *data, size_t size);

/* What a message, without its first `before` frames, needs in a parcel; 0 if none can hold it. */
size_t parcel_size(PyObject *frames, Py_ssize_t before);

/* Puts it there; returns how much that is. */
size_t parcel_put(unsigned char *at, PyObject *frames, Py_ssize_t before);

#endif
