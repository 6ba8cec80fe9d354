/* Rows to columns: the native twin of famulus/journal/packing_python.py, which says what the letters mean.

   A dispatcher pays for every task here. So a row is packed while its values are still at hand for the processor, and no
   Python object is made for it. A row with a value that does not fit its letter raises, and is not there then. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian; elsewhere the Python twin writes them"
#endif

/* As in famulus/journal/records.py. */
#define LAYOUT 4
#define COLUMNS_MAX 32
#define ROWS_FIRST 256

static void put32(unsigned char *at, int32_t value) { memcpy(at, &value, 4); }

static void put64(unsigned char *at, int64_t value) { memcpy(at, &value, 8); }

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

/* Eight bytes, the first of which counts most. */
static uint64_t big_endian(const char *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, 8);
    return __builtin_bswap64(value);
}

/* Twelve lower-case hexadecimal digits, or -1. */
static int64_t hexadecimal(const char *digits)
{
    int64_t number = 0;
    for (int place = 0; place < 12; place++) {
        char digit = digits[place];
        int is_letter = digit >= 'a' && digit <= 'f';
        if (!is_letter && (digit < '0' || digit > '9'))
            return -1;
        number = number << 4 | (digit - (is_letter ? 'a' - 10 : '0'));
    }
    return number;
}

/* An id of our own is its number; any other is kept, and is minus its place among those, counted from 1. */
static int put_id(unsigned char *at, PyObject *id, PyObject *head, PyObject *ids)
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
static int put_ticket(unsigned char *at, PyObject *ticket)
{
    if (!PyBytes_Check(ticket) || (PyBytes_GET_SIZE(ticket) != 8 && PyBytes_GET_SIZE(ticket) != 0)) {
        PyErr_SetString(PyExc_TypeError, "a ticket is eight bytes, or none");
        return -1;
    }
    uint64_t number = PyBytes_GET_SIZE(ticket) == 8 ? big_endian(PyBytes_AS_STRING(ticket)) : 0;
    put64(at, (int64_t)(number & INT64_MAX));
    return 0;
}

static int read_number(PyObject *value, int wide, int64_t *number)
{
    int overflow = 0;
    if (!PyLong_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a number is an int");
        return -1;
    }
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (*number == -1 && PyErr_Occurred())
        return -1;
    if (overflow || (!wide && (*number < INT32_MIN || *number > INT32_MAX))) {
        PyErr_Format(PyExc_OverflowError, "a number of more than %d bits", wide ? 64 : 32);
        return -1;
    }
    return 0;
}

typedef struct {
    char letter;
    unsigned char bytes; /* of a value */
    unsigned char is_same; /* in all rows so far: then nothing is written */
    unsigned char *first;
    /* The text or number that came last, and what stands for it: mostly the next one is the same object. */
    PyObject *last;
    int64_t last_value;
} Column;

typedef struct {
    PyObject_HEAD
    Py_ssize_t width;
    Py_ssize_t record; /* bytes of a row */
    PyObject *codes, *head, *ids;
    unsigned char *buffer; /* all columns, each with room for as many rows */
    Py_ssize_t rows, room;
    Column columns[COLUMNS_MAX];
} Packer;

static void put_last(const Column *column, Py_ssize_t row)
{
    unsigned char *at = column->first + row * column->bytes;
    if (column->bytes == 8)
        put64(at, column->last_value);
    else
        put32(at, (int32_t)column->last_value);
}

/* The same text as the last one, in another object: a name comes anew with each message. */
static int is_last_text(const Column *column, PyObject *value)
{
    PyObject *last = column->last;
    return last != NULL && PyBytes_Check(value) && PyBytes_GET_SIZE(value) == PyBytes_GET_SIZE(last)
        && memcmp(PyBytes_AS_STRING(value), PyBytes_AS_STRING(last), (size_t)PyBytes_GET_SIZE(last)) == 0;
}

/* A text or a number that is not the object that came last. */
static int turn_to(Packer *self, Column *column, PyObject *value)
{
    int64_t found;
    if (column->letter == 's') {
        if (is_last_text(column, value))
            return 0;
        found = code_of(self->codes, value);
        if (found < 0)
            return -1;
    } else if (read_number(value, column->letter == 'q', &found) < 0) {
        return -1;
    }
    Py_INCREF(value);
    Py_XSETREF(column->last, value);
    if (self->rows == 0) {
        column->is_same = 1;
    } else if (column->is_same && found != column->last_value) {
        for (Py_ssize_t row = 0; row < self->rows; row++)
            put_last(column, row);
        column->is_same = 0;
    }
    column->last_value = found;
    return 0;
}

static int grow(Packer *self)
{
    Py_ssize_t room = self->room ? 2 * self->room : ROWS_FIRST;
    unsigned char *buffer = PyMem_Malloc((size_t)(room * self->record));
    if (buffer == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    unsigned char *at = buffer;
    for (Py_ssize_t place = 0; place < self->width; place++) {
        Column *column = &self->columns[place];
        if (self->rows > 0 && !column->is_same)
            memcpy(at, column->first, (size_t)(self->rows * column->bytes));
        column->first = at;
        at += room * column->bytes;
    }
    PyMem_Free(self->buffer);
    self->buffer = buffer;
    self->room = room;
    return 0;
}

static void forget(Packer *self)
{
    for (Py_ssize_t place = 0; place < self->width; place++)
        Py_CLEAR(self->columns[place].last);
}

static PyObject *packer_add(Packer *self, PyObject *const *values, Py_ssize_t count)
{
    if (count != self->width)
        return PyErr_Format(PyExc_TypeError, "a row has %zd values", self->width);
    if (self->rows == self->room && grow(self) < 0)
        return NULL;
    for (Py_ssize_t place = 0; place < count; place++) {
        Column *column = &self->columns[place];
        int failed = 0;
        switch (column->letter) {
        case 'm':
            failed = put_id(column->first + self->rows * 8, values[place], self->head, self->ids);
            break;
        case 'n':
            failed = put_ticket(column->first + self->rows * 8, values[place]);
            break;
        default:
            if (column->last != values[place])
                failed = turn_to(self, column, values[place]);
            if (!column->is_same)
                put_last(column, self->rows);
        }
        if (failed) {
            forget(self); /* without a row nobody takes anything, and the codes may be others by the next one */
            return NULL;
        }
    }
    self->rows++;
    Py_RETURN_NONE;
}

static PyObject *packer_take(Packer *self, PyObject *nothing)
{
    (void)nothing;
    PyObject *taken = PyList_New(self->rows > 0 ? self->width : 0);
    if (taken == NULL)
        return NULL;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(taken); place++) {
        Column *column = &self->columns[place];
        PyObject *values = column->is_same
            ? PyLong_FromLongLong(column->last_value)
            : PyBytes_FromStringAndSize((char *)column->first, self->rows * column->bytes);
        if (values == NULL) {
            Py_DECREF(taken);
            return NULL;
        }
        PyList_SET_ITEM(taken, place, values);
    }
    self->rows = 0;
    forget(self);
    return taken;
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
    Packer *self = (Packer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    for (; self->width < width; self->width++) {
        char letter = letters[self->width];
        if (letter == '\0' || strchr("smnqi", letter) == NULL) {
            Py_DECREF(self);
            return PyErr_Format(PyExc_ValueError, "no such letter: %c", letter);
        }
        Column *column = &self->columns[self->width];
        column->letter = letter;
        column->bytes = letter == 's' || letter == 'i' ? 4 : 8;
        self->record += column->bytes;
    }
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

static PyMethodDef packer_methods[] = {
    {"add", (PyCFunction)(void (*)(void))packer_add, METH_FASTCALL, "add(*values): one more row"},
    {"take", (PyCFunction)packer_take, METH_NOARGS, "take() -> the columns, a number for one that is the same in all rows; there are no rows then"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef packer_members[] = {
    {"rows", T_PYSSIZET, offsetof(Packer, rows), READONLY, "how many there are"},
    {NULL, 0, 0, 0, NULL},
};

/* No garbage collection: what it holds are texts, and a dict and a list of texts, none of which leads back to it. */
static PyTypeObject packer_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "famulus.journal._packing.Packer",
    .tp_doc = "Packer(letters, codes, head, ids): gathers rows",
    .tp_basicsize = sizeof(Packer),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = packer_new,
    .tp_dealloc = (destructor)packer_dealloc,
    .tp_methods = packer_methods,
    .tp_members = packer_members,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_packing", "Rows to columns; famulus.journal.records exports it.", -1, NULL,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__packing(void)
{
    if (PyType_Ready(&packer_type) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL
        && (PyModule_AddIntConstant(made, "LAYOUT", LAYOUT) < 0
            || PyModule_AddObjectRef(made, "Packer", (PyObject *)&packer_type) < 0))
        Py_CLEAR(made);
    return made;
}
