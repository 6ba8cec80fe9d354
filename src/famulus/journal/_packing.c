/* Rows to records: the native twin of famulus/journal/packing_python.py, which says what the letters mean.

   A dispatcher pays for every task here. So a row is packed while its values are still at hand for the processor, and no
   Python object is made for it. A row with a value that does not fit its letter raises, and is not there then. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COLUMNS_MAX 32
#define ROWS_FIRST 256

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

typedef struct {
    PyObject_HEAD
    char letters[COLUMNS_MAX + 1];
    Py_ssize_t width;
    Py_ssize_t record;
    PyObject *codes, *head, *ids;
    /* The text that a column had last, and its code: mostly the next one is the same object. */
    PyObject *last_text[COLUMNS_MAX];
    int32_t last_code[COLUMNS_MAX];
    unsigned char *buffer;
    Py_ssize_t rows, room;
} Packer;

static int put_text(Packer *self, unsigned char **at, Py_ssize_t column, PyObject *text)
{
    if (self->last_text[column] != text) {
        int32_t code = code_of(self->codes, text);
        if (code < 0)
            return -1;
        Py_INCREF(text);
        Py_XSETREF(self->last_text[column], text);
        self->last_code[column] = code;
    }
    put32(at, self->last_code[column]);
    return 0;
}

static int grow(Packer *self)
{
    Py_ssize_t room = self->room ? 2 * self->room : ROWS_FIRST;
    unsigned char *buffer = PyMem_Realloc(self->buffer, (size_t)(room * self->record));
    if (buffer == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->buffer = buffer;
    self->room = room;
    return 0;
}

static PyObject *packer_add(Packer *self, PyObject *const *values, Py_ssize_t count)
{
    if (count != self->width)
        return PyErr_Format(PyExc_TypeError, "a row has %zd values", self->width);
    if (self->rows == self->room && grow(self) < 0)
        return NULL;
    unsigned char *at = self->buffer + self->rows * self->record;
    for (Py_ssize_t column = 0; column < count; column++) {
        int failed;
        switch (self->letters[column]) {
        case 's':
            failed = put_text(self, &at, column, values[column]);
            break;
        case 'm':
            failed = put_id(&at, values[column], self->head, self->ids);
            break;
        case 'n':
            failed = put_ticket(&at, values[column]);
            break;
        default:
            failed = put_number(&at, values[column], self->letters[column] == 'q');
        }
        if (failed)
            return NULL;
    }
    self->rows++;
    Py_RETURN_NONE;
}

static void forget(Packer *self)
{
    for (Py_ssize_t column = 0; column < self->width; column++)
        Py_CLEAR(self->last_text[column]);
}

static PyObject *packer_take(Packer *self, PyObject *nothing)
{
    (void)nothing;
    PyObject *records = PyBytes_FromStringAndSize((const char *)self->buffer, self->rows * self->record);
    if (records == NULL)
        return NULL;
    self->rows = 0;
    forget(self);
    return records;
}

static PyObject *packer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    const char *letters;
    Py_ssize_t width;
    PyObject *codes, *head, *ids;
    if (!PyArg_ParseTuple(args, "s#O!SO!", &letters, &width, &PyDict_Type, &codes, &head, &PyList_Type, &ids))
        return NULL;
    if (width > COLUMNS_MAX)
        return PyErr_Format(PyExc_ValueError, "at most %d columns", COLUMNS_MAX);
    Py_ssize_t record = 0;
    for (Py_ssize_t column = 0; column < width; column++) {
        if (letters[column] == '\0' || strchr("smnqi", letters[column]) == NULL)
            return PyErr_Format(PyExc_ValueError, "no such letter: %c", letters[column]);
        record += letters[column] == 's' || letters[column] == 'i' ? 4 : 8;
    }
    Packer *self = (Packer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    memcpy(self->letters, letters, (size_t)width);
    self->width = width;
    self->record = record;
    self->codes = Py_NewRef(codes);
    self->head = Py_NewRef(head);
    self->ids = Py_NewRef(ids);
    return (PyObject *)self;
}

static void packer_dealloc(Packer *self)
{
    forget(self);
    Py_XDECREF(self->codes);
    Py_XDECREF(self->head);
    Py_XDECREF(self->ids);
    PyMem_Free(self->buffer);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *packer_rows(Packer *self, void *nothing)
{
    (void)nothing;
    return PyLong_FromSsize_t(self->rows);
}

static PyMethodDef packer_methods[] = {
    {"add", (PyCFunction)(void (*)(void))packer_add, METH_FASTCALL, "add(*values): one more row"},
    {"take", (PyCFunction)packer_take, METH_NOARGS, "take() -> the records; there are none then"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef packer_getters[] = {
    {"rows", (getter)packer_rows, NULL, "how many there are", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* No garbage collection: what it holds are texts, and a dict and a list of texts, none of which leads back to it. */
static PyTypeObject packer_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "famulus.journal._packing.Packer",
    .tp_doc = "Packer(letters, codes, head, ids): gathers records",
    .tp_basicsize = sizeof(Packer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = packer_new,
    .tp_dealloc = (destructor)packer_dealloc,
    .tp_methods = packer_methods,
    .tp_getset = packer_getters,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_packing", "Rows to records; famulus.journal.records exports it.", -1, NULL,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__packing(void)
{
    if (PyType_Ready(&packer_type) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddObjectRef(made, "Packer", (PyObject *)&packer_type) < 0)
        Py_CLEAR(made);
    return made;
}
