/* The native module: messages over connections of our own. It knows nothing of libzmq. */
#include "_pump.h"

#include "_messages.h"

static int pump_exec(PyObject *module) {
    if (PyModule_AddIntConstant(module, "FRAMES_MAX", FRAMES_MAX) < 0) {
        return -1;
    }
    return stream_add_to(module) < 0 ? -1 : connections_add_to(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, pump_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "famulus.net._pump",
    .m_doc = "The native module; see famulus.net.native.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__pump(void);
PyMODINIT_FUNC PyInit__pump(void) { return PyModuleDef_Init(&definition); }
