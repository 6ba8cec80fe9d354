/* What a connection with keys seals and opens its frames with; see wire/curve.py, which does the same in Python.
 *
 *     a sealed frame    "\7MESSAGE", its number (8 bytes), the seal (16 bytes); and sealed: flags (1 byte), the frame
 */
#ifndef FAMULUS_SEAL_H
#define FAMULUS_SEAL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum {
    SEAL_HEAD = 8 + 8 + 16,       /* before what is sealed */
    SEAL_EXTRA = SEAL_HEAD + 1,   /* by how much a sealed frame is longer */
    SEAL_MORE = 1, SEAL_COMMAND = 2, /* flags */
};

typedef struct Seal {
    unsigned char key[32];
    unsigned char sends[16], hears[16]; /* what the nonces of both sides begin with */
    unsigned long long sent, heard;     /* the numbers of their last frames */
} Seal;

/* A copy of a `Seal` of Python; NULL with an exception set. */
Seal *seal_new(PyObject *seal);
void seal_free(Seal *seal); /* may be NULL; leaves nothing of the key in memory */

/* Seals `size` bytes in place, flags first; puts their head in front of them, where there must be SEAL_HEAD bytes. */
void seal_close(Seal *seal, unsigned char *content, size_t size);

/* Opens a sealed frame in place: its flags, behind which `size` - SEAL_EXTRA bytes follow. NULL if it is not the next. */
unsigned char *seal_open(Seal *seal, unsigned char *frame, size_t size);

/* use_sodium(box, open): the addresses of crypto_box_detached_afternm and crypto_box_open_detached_afternm. */
PyObject *seal_use_sodium(PyObject *module, PyObject *args);

#endif
