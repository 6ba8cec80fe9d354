#include "_seal.h"

#include <stdlib.h>
#include <string.h>

enum { NAME = 8, NUMBER = 8, MAC = 16, PREFIX = 16 };

static const unsigned char name[NAME + 1] = "\7MESSAGE";

/* libsodium, as PyNaCl brings it. Both may work in place. */
static int (*box)(unsigned char *sealed, unsigned char *mac, const unsigned char *content, unsigned long long size,
                  const unsigned char *nonce, const unsigned char *key);
static int (*unbox)(unsigned char *content, const unsigned char *sealed, const unsigned char *mac,
                    unsigned long long size, const unsigned char *nonce, const unsigned char *key);

PyObject *seal_use_sodium(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *boxes, *opens;
    if (!PyArg_ParseTuple(args, "O!O!:use_sodium", &PyLong_Type, &boxes, &PyLong_Type, &opens)) {
        return NULL;
    }
    void *first = PyLong_AsVoidPtr(boxes), *second = PyLong_AsVoidPtr(opens);
    if (PyErr_Occurred()) {
        return NULL;
    }
    /* ISO C has no cast from an object to a function; POSIX promises that this is one. */
    memcpy(&box, &first, sizeof(box));
    memcpy(&unbox, &second, sizeof(unbox));
    Py_RETURN_NONE;
}

static int copy_bytes(PyObject *from, const char *attribute, unsigned char *to, Py_ssize_t size) {
    PyObject *found = PyObject_GetAttrString(from, attribute);
    int fits = found != NULL && PyBytes_Check(found) && PyBytes_GET_SIZE(found) == size;
    if (fits) {
        memcpy(to, PyBytes_AS_STRING(found), (size_t)size);
    } else if (found != NULL) {
        PyErr_Format(PyExc_ValueError, "the %s of a seal has %zd bytes", attribute, size);
    }
    Py_XDECREF(found);
    return fits;
}

static int copy_number(PyObject *from, const char *attribute, unsigned long long *to) {
    PyObject *found = PyObject_GetAttrString(from, attribute);
    *to = found == NULL ? 0 : PyLong_AsUnsignedLongLong(found);
    Py_XDECREF(found);
    return !PyErr_Occurred();
}

Seal *seal_new(PyObject *seal) {
    if (box == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "libsodium has to be known before anything is sealed: use_sodium");
        return NULL;
    }
    Seal *made = malloc(sizeof(Seal));
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (copy_bytes(seal, "key", made->key, sizeof(made->key)) && copy_bytes(seal, "sends", made->sends, PREFIX) &&
        copy_bytes(seal, "hears", made->hears, PREFIX) && copy_number(seal, "sent", &made->sent) &&
        copy_number(seal, "heard", &made->heard)) {
        return made;
    }
    seal_free(made);
    return NULL;
}

void seal_free(Seal *seal) {
    if (seal != NULL) {
        /* Through a volatile pointer: a compiler would leave out what nobody reads again. */
        volatile unsigned char *at = (volatile unsigned char *)seal;
        for (size_t i = 0; i < sizeof(Seal); i++) {
            at[i] = 0;
        }
        free(seal);
    }
}

/* The nonce of a frame, and its number where that is sent. */
static void number(unsigned char *nonce, const unsigned char *prefix, unsigned long long number) {
    memcpy(nonce, prefix, PREFIX);
    for (int i = 0; i < NUMBER; i++) {
        nonce[PREFIX + i] = (unsigned char)(number >> (8 * (NUMBER - 1 - i)));
    }
}

void seal_close(Seal *seal, unsigned char *content, size_t size) {
    unsigned char nonce[PREFIX + NUMBER], *mac = content - MAC;
    number(nonce, seal->sends, ++seal->sent);
    memcpy(content - SEAL_HEAD, name, NAME);
    memcpy(mac - NUMBER, nonce + PREFIX, NUMBER);
    (void)box(content, mac, content, size, nonce, seal->key);
}

unsigned char *seal_open(Seal *seal, unsigned char *frame, size_t size) {
    unsigned char nonce[PREFIX + NUMBER], *content = frame + SEAL_HEAD;
    number(nonce, seal->hears, seal->heard + 1);
    if (size < SEAL_EXTRA || memcmp(frame, name, NAME) != 0 || memcmp(frame + NAME, nonce + PREFIX, NUMBER) != 0) {
        return NULL;
    }
    seal->heard++;
    return unbox(content, content, content - MAC, size - SEAL_HEAD, nonce, seal->key) == 0 ? content : NULL;
}
