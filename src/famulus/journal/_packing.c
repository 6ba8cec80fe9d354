/* Rows to records: the native twin of famulus/journal/packing_python.py, which says what the letters mean.

   A dispatcher pays for every task here, so there is one call for a whole batch, and no Python object is made for a
   row. Anything that does not fit its letter raises, and nothing of the batch is used then. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

static void put32(unsigned char **at, int32_t value)
{
    memcpy(*at, &value, 4);
    *at += 4;
}

static void put64(unsigned char **at, int64_t value)
{
    memcpy(*at, &value, 8);
    *at += 8;
}

/* The code of a text: 0 for an empty one, else its place in `codes`, counted from 1. -1 with an exception set. */
static int32_t code_of(PyObject *codes, PyObject *text)
{
    if (!PyBytes_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text is bytes");
        return -1;
    }
    if (PyBytes_GET_SIZE(text) == 0)
        return 0;
    PyObject *known = PyDict_GetItemWithError(codes, text);
    if (known != NULL)
        return (int32_t)PyLong_AsLong(known);
    if (PyErr_Occurred())
        return -1;
    Py_ssize_t code = PyDict_GET_SIZE(codes) + 1;
    PyObject *number = PyLong_FromSsize_t(code);
    if (number == NULL || PyDict_SetItem(codes, text, number) < 0) {
        Py_XDECREF(number);
        return -1;
    }
    Py_DECREF(number);
    return (int32_t)code;
}

/* Twelve lower-case hexadecimal digits, or -1. */
static int64_t hexadecimal(const char *digits)
{
    int64_t value = 0;
    for (int place = 0; place < 12; place++) {
        char digit = digits[place];
        if (digit >= '0' && digit <= '9')
            value = value << 4 | (digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            value = value << 4 | (digit - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* An id of our own is its number; any other is kept, and is minus its place among those, counted from 1. */
static int put_id(unsigned char **at, PyObject *id, PyObject *head, PyObject *ids)
{
    if (!PyBytes_Check(id)) {
        PyErr_SetString(PyExc_TypeError, "an id is bytes");
        return -1;
    }
    Py_ssize_t length = PyBytes_GET_SIZE(head);
    const char *text = PyBytes_AS_STRING(id);
    if (length > 0 && PyBytes_GET_SIZE(id) == length + 13 && text[length + 12] == '"'
        && memcmp(text, PyBytes_AS_STRING(head), (size_t)length) == 0) {
        int64_t number = hexadecimal(text + length);
        if (number >= 0) {
            put64(at, number);
            return 0;
        }
    }
    if (PyList_Append(ids, id) < 0)
        return -1;
    put64(at, -(int64_t)PyList_GET_SIZE(ids));
    return 0;
}

/* Eight bytes, of which 63 bits count. */
static int put_ticket(unsigned char **at, PyObject *ticket)
{
    if (!PyBytes_Check(ticket) || (PyBytes_GET_SIZE(ticket) != 8 && PyBytes_GET_SIZE(ticket) != 0)) {
        PyErr_SetString(PyExc_TypeError, "a ticket is eight bytes, or none");
        return -1;
    }
    uint64_t number = 0;
    for (Py_ssize_t place = 0; place < PyBytes_GET_SIZE(ticket); place++)
        number = number << 8 | (unsigned char)PyBytes_AS_STRING(ticket)[place];
    put64(at, (int64_t)(number & INT64_MAX));
    return 0;
}

static int put_number(unsigned char **at, PyObject *value, int wide)
{
    int overflow = 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (wide) {
        if (overflow) {
            PyErr_SetString(PyExc_OverflowError, "a number of more than 64 bits");
            return -1;
        }
        put64(at, number);
        return 0;
    }
    if (overflow || number < INT32_MIN || number > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a number of more than 32 bits");
        return -1;
    }
    put32(at, (int32_t)number);
    return 0;
}

static int put_row(unsigned char **at, const char *letters, Py_ssize_t width, PyObject *row, PyObject *codes,
                   PyObject *head, PyObject *ids)
{
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != width) {
        PyErr_Format(PyExc_TypeError, "a row is a tuple of %zd", width);
        return -1;
    }
    for (Py_ssize_t column = 0; column < width; column++) {
        PyObject *value = PyTuple_GET_ITEM(row, column);
        int32_t code;
        int failed = 0;
        switch (letters[column]) {
        case 's':
            code = code_of(codes, value);
            failed = code < 0;
            put32(at, code);
            break;
        case 'm':
            failed = put_id(at, value, head, ids);
            break;
        case 'n':
            failed = put_ticket(at, value);
            break;
        case 'q':
            failed = put_number(at, value, 1);
            break;
        default:
            failed = put_number(at, value, 0);
        }
        if (failed)
            return -1;
    }
    return 0;
}

static PyObject *pack(PyObject *self, PyObject *args)
{
    (void)self;
    const char *letters;
    Py_ssize_t width;
    PyObject *rows, *codes, *head, *ids;
    if (!PyArg_ParseTuple(args, "s#O!O!SO!", &letters, &width, &PyList_Type, &rows, &PyDict_Type, &codes, &head,
                          &PyList_Type, &ids))
        return NULL;
    Py_ssize_t record = 0;
    for (Py_ssize_t column = 0; column < width; column++) {
        if (strchr("smnqi", letters[column]) == NULL)
            return PyErr_Format(PyExc_ValueError, "no such letter: %c", letters[column]);
        record += letters[column] == 's' || letters[column] == 'i' ? 4 : 8;
    }
    Py_ssize_t count = PyList_GET_SIZE(rows);
    PyObject *packed = PyBytes_FromStringAndSize(NULL, count * record);
    if (packed == NULL)
        return NULL;
    unsigned char *at = (unsigned char *)PyBytes_AS_STRING(packed);
    for (Py_ssize_t index = 0; index < count; index++) {
        /* Keys of `codes` are bytes, so no code of others runs in here that could change the list. */
        if (put_row(&at, letters, width, PyList_GET_ITEM(rows, index), codes, head, ids) < 0) {
            Py_DECREF(packed);
            return NULL;
        }
    }
    return packed;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, "pack(letters, rows, codes, head, ids) -> the records"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_packing", "Rows to records; famulus.journal.records exports it.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__packing(void)
{
    return PyModule_Create(&module);
}
