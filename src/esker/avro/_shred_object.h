/* The Python face of _shred.c, which includes it: loading a program, feeding blocks, handing out buffers. */

/* Whether the subtree at n is one the walk can trust; its slots, depth and scratch are accounted for. */
static int check_node(Shredder *w, int n, int end, int depth, int kept, char *taken) {
    Node *node = &w->nodes[n];
    if (depth > MAX_DEPTH || node->next <= n || node->next > end) return 0;
    if (node->op < 0 || node->op >= OPS || node->uni < PLAIN || node->uni > SINGLE) return 0;
    if (node->arg < 0 || node->arg > INT32_MAX || node->slot < -1 || node->slot >= w->n_slots) return 0;
    if (node->slot >= 0 && (!kept || taken[node->slot]++)) return 0;
    int children = 0, with_slot = 0;
    for (int c = n + 1; c < node->next; c = w->nodes[c].next, children++) {
        if (!check_node(w, c, node->next, depth + 1, node->slot >= 0, taken)) return 0;
        with_slot += w->nodes[c].slot >= 0;
    }
    switch (node->op) {
    case RECORD: return 1;
    case ARRAY: return children == 1 && (node->slot < 0 || with_slot == 1);
    case MAP: return children == 2 && w->nodes[n + 1].op == STRING && (node->slot < 0 || with_slot == 2);
    case UNION: return node->slot < 0 && children > 0;
    case PICK: break;
    default: return children == 0;
    }
    int value = children < 2 ? 0 : w->nodes[n + 1].next;
    if (node->slot < 0 || !value || children != node->arg + 2 || with_slot != node->arg) return 0;
    if (w->nodes[n + 1].slot >= 0 || w->nodes[value].slot >= 0 || w->nodes[n + 1].uni != PLAIN) return 0;
    if (w->nodes[n + 1].op != INT && w->nodes[n + 1].op != LONG) return 0;
    int first = w->nodes[value].next, stride = node->arg ? w->nodes[first].next - first : 0;
    for (int i = 0, c = first; c < node->next; c = w->nodes[c].next, i++)
        if (c != first + i * stride || (i && w->nodes[c].key <= w->nodes[c - stride].key)) return 0;
    node->scratch = w->n_scratch;
    w->n_scratch += (int)node->arg;
    return 1;
}

static int load(Shredder *w, const char *code, Py_ssize_t size) {
    Py_ssize_t rows = size / (FIELDS * 8);
    if (!rows || size % (FIELDS * 8) || rows > (1 << 24) || w->n_slots < 1 || w->n_slots > rows) return 0;
    w->nodes = calloc((size_t)rows, sizeof(Node));
    w->slots = calloc((size_t)w->n_slots, sizeof(Slot));
    char *taken = calloc((size_t)w->n_slots, 1);
    int fine = w->nodes && w->slots && taken;
    w->n_nodes = (int)rows;
    for (Py_ssize_t i = 0; fine && i < rows; i++) {
        int64_t f[FIELDS];
        memcpy(f, code + i * FIELDS * 8, FIELDS * 8);
        for (int j = 0; j < FIELDS; j++)
            if (j != 5 && (f[j] < INT32_MIN || f[j] > INT32_MAX)) fine = 0;
        w->nodes[i] = (Node){.op = (int)f[0], .uni = (int)f[1], .slot = (int)f[2], .nullable = f[3] != 0,
                             .arg = f[4], .key = f[5], .next = (int)f[6]};
    }
    fine = fine && w->nodes[0].next == rows && w->nodes[0].slot >= 0 && w->nodes[0].op == RECORD;
    fine = fine && check_node(w, 0, (int)rows, 0, 1, taken);
    for (int i = 0; fine && i < w->n_slots; i++) fine = taken[i]; /* no slot left without its node */
    free(taken);
    if (fine) w->scratch = calloc((size_t)w->n_scratch + 1, sizeof(*w->scratch));
    return fine && w->scratch;
}

/* An empty batch: offsets start with a zero. */
static int begin(Shredder *w) {
    w->empty = MAX_EMPTY;
    w->bytes = 0;
    for (int i = 0; i < w->n_slots; i++) w->slots[i].length = w->slots[i].nulls = 0;
    for (int i = 0; i < w->n_nodes; i++) {
        int op = w->nodes[i].op;
        if (w->nodes[i].slot < 0 || (op != BYTES && op != STRING && op != ARRAY && op != MAP)) continue;
        int err = append_offset(w, &w->slots[w->nodes[i].slot], 0);
        if (err) return err;
    }
    return OK;
}

static int fail(int err) {
    if (err == MEMORY) PyErr_NoMemory();
    else PyErr_SetString(PyExc_ValueError, REASONS[err]);
    return -1;
}

/* A row or a batch is half done, so nothing of it may be used: enter refuses from here on. */
static void give_up(Shredder *w) {
    free(w->scratch);
    w->scratch = NULL;
}

static int enter(Shredder *w) {
    if (w->busy || !w->scratch) {
        PyErr_SetString(PyExc_RuntimeError, "the shredder is in use by another thread, or has failed");
        return -1;
    }
    return 0;
}

static int Shredder_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    Shredder *w = (Shredder *)self;
    const char *code;
    Py_ssize_t size;
    long long limit;
    int slots;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "y#iL", &code, &size, &slots, &limit)) return -1;
    if (w->nodes) {
        PyErr_SetString(PyExc_RuntimeError, "the shredder is loaded already");
        return -1;
    }
    w->n_slots = slots;
    w->limit = limit < 0 ? 0 : limit > MAX_BYTES ? MAX_BYTES : limit;
    if (!load(w, code, size)) {
        give_up(w);
        if (!w->slots) w->n_slots = 0;
        PyErr_SetString(PyExc_ValueError, "not a program");
        return -1;
    }
    int err = begin(w);
    return err ? fail(err) : 0;
}

static void Shredder_dealloc(PyObject *self) {
    Shredder *w = (Shredder *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (int i = 0; w->slots && i < w->n_slots; i++) {
        free(w->slots[i].valid.at);
        free(w->slots[i].main.at);
        free(w->slots[i].data.at);
    }
    free(w->slots);
    free(w->nodes);
    free(w->scratch);
    free(w->plain.at);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *Shredder_feed(PyObject *self, PyObject *args) {
    Shredder *w = (Shredder *)self;
    PyObject *data;
    Py_buffer view;
    Py_ssize_t at;
    long long rows, soft, done = 0;
    if (!PyArg_ParseTuple(args, "OnLL", &data, &at, &rows, &soft) || enter(w)) return NULL;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    if (at < 0 || at > view.len) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "the position is outside the block");
        return NULL;
    }
    int err = OK;
    w->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    w->p = (const uint8_t *)view.buf + at;
    w->end = (const uint8_t *)view.buf + view.len;
    while (done < rows && !err) {
        const uint8_t *start = w->p;
        err = keep(w, 0);
        done++;
        if (!err && w->p == start && --w->empty < 0) err = EMPTY;
        if (w->bytes > soft) break;
    }
    at = w->p - (const uint8_t *)view.buf;
    w->p = w->end = NULL;
    Py_END_ALLOW_THREADS
    w->busy = 0;
    PyBuffer_Release(&view);
    if (err) {
        give_up(w);
        fail(err);
        return NULL;
    }
    return Py_BuildValue("(nLL)", at, done, (long long)w->bytes);
}

#include "_shred_blocks.h"

static PyObject *release(Buf *buf) {
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)buf->at, (Py_ssize_t)buf->used);
    free(buf->at);
    *buf = (Buf){0};
    return bytes;
}

static PyObject *Shredder_finish(PyObject *self, PyObject *unused) {
    Shredder *w = (Shredder *)self;
    (void)unused;
    if (enter(w)) return NULL;
    free(w->plain.at);
    w->plain = (Buf){0};
    PyObject *out = PyList_New(w->n_slots);
    for (int i = 0; out && i < w->n_slots; i++) {
        Slot *slot = &w->slots[i];
        PyObject *valid = release(&slot->valid), *values = release(&slot->main), *data = release(&slot->data);
        PyObject *item = NULL;
        if (valid && values && data)
            item = Py_BuildValue("(LLOOO)", (long long)slot->length, (long long)slot->nulls, valid, values, data);
        Py_XDECREF(valid);
        Py_XDECREF(values);
        Py_XDECREF(data);
        if (!item || PyList_SetItem(out, i, item)) {
            Py_DECREF(out);
            out = NULL;
        }
    }
    int err = out ? begin(w) : OK;
    if (err) {
        Py_DECREF(out);
        out = NULL;
        fail(err);
    }
    return out ? out : (give_up(w), NULL);
}

static PyMethodDef methods[] = {
    {"feed", Shredder_feed, METH_VARARGS,
     "feed(data, at, rows, soft) -> (at, done, bytes): walk rows until done, or past soft bytes of buffers."},
    {"feed_blocks", Shredder_feed_blocks, METH_VARARGS,
     "feed_blocks(data, at, sync, deflated, (block, container), (growth_from, growth, fed)) -> (at, blocks, rows, "
     "inflated, bytes): walk whole blocks until the end, or before one that is not plainly right."},
    {"finish", Shredder_finish, METH_NOARGS,
     "finish() -> [(length, nulls, validity, values or offsets, data)] by slot; begins the next batch."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot type_slots[] = {{Py_tp_init, Shredder_init},   {Py_tp_dealloc, Shredder_dealloc},
                                   {Py_tp_methods, methods},      {Py_tp_doc, "Shredder(code, slots, limit)"},
                                   {Py_tp_new, PyType_GenericNew}, {0, NULL}};

static PyType_Spec spec = {"esker.avro._shred.Shredder", sizeof(Shredder), 0, Py_TPFLAGS_DEFAULT, type_slots};

static int exec_module(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    if (!type || PyModule_AddObject(module, "Shredder", type)) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_shred", "The compiled walk; see _shred.c.", 0, NULL,
                             module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__shred(void) { return PyModuleDef_Init(&module); }
