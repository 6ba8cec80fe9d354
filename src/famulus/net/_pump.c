/* The native module: messages over connections of our own, and the wait for them. It knows nothing of libzmq. */
#include "_pump.h"

#include "_messages.h"
#include "_seal.h"

static int add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    int failed = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return failed;
}

static int pump_exec(PyObject *module) {
    if (PyModule_AddIntConstant(module, "FRAMES_MAX", FRAMES_MAX) < 0 || add_type(module, &stream_spec) < 0) {
        return -1;
    }
    return add_type(module, &connections_spec);
}

static PyMethodDef methods[] = {
    /* METH_FASTCALL functions have a different type from the slot; a cast via a plain function keeps gcc quiet. */
    {"wait", (PyCFunction)(void (*)(void))waiting_wait, METH_FASTCALL, "Those of `sources` that have news by `until_ns`."},
    {"use_sodium", seal_use_sodium, METH_VARARGS, "Where libsodium's functions are that seal and open."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, pump_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "famulus.net._pump",
    .m_doc = "The native module; see famulus.net.native.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__pump(void);
PyMODINIT_FUNC PyInit__pump(void) { return PyModuleDef_Init(&definition); }
