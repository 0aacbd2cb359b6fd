/* A part with a fault on purpose: make sanitize first proves that the sanitizers report it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *read_past(PyObject *self, PyObject *args) {
    const char *data;
    Py_ssize_t length, past;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#n", &data, &length, &past)) return NULL;
    volatile const char *at = data;
    return PyLong_FromLong(at[length + past]); /* the byte after the last is Python's own zero */
}

static PyObject *shift_by(PyObject *self, PyObject *args) {
    int by;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &by)) return NULL;
    return PyLong_FromLong(1 << by);
}

static PyObject *leak(PyObject *self, PyObject *args) {
    (void)self;
    (void)args;
    volatile char *lost = malloc(4321);
    lost[0] = 1;
    lost = NULL;
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"read_past", read_past, METH_VARARGS, NULL},
    {"shift_by", shift_by, METH_VARARGS, NULL},
    {"leak", leak, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, .m_name = "broken", .m_size = -1, .m_methods = METHODS};

PyMODINIT_FUNC PyInit_broken(void) { return PyModule_Create(&MODULE); }
