/* Part of _walk.c: its Python face. Loading a program, feeding requests, handing out buffers. */

static const int SLOTS[] = {[LEVEL] = 1, [MESSAGE] = 0, [LIST] = 1, [FIXED64] = 1, [SFIXED64] = 1, [DOUBLE] = 1,
                            [FIXED32] = 1, [UINT32] = 1, [INT32] = 1, [SINT32] = 1, [BOOL] = 1, [STRING] = 1, [ID] = 1,
                            [ANY] = 2, [ATTRIBUTES] = 6, [FIXED64S] = 2, [UINT64S] = 2, [DOUBLES] = 2, [STRINGS] = 2};

/* Whether the subtree at n is one the walk can trust. */
static int check_node(Walker *w, int n, int end, int depth, int level, int *slots) {
    Node *node = &w->nodes[n];
    if (depth >= MAX_DEPTH || node->next <= n || node->next > end) return 0;
    if (node->op < 0 || node->op >= OPS || (node->op == LEVEL && !level)) return 0;
    if (n && (node->number < 1 || node->number >= MAX_NUMBER)) return 0;
    if (node->op == ID && (node->arg < 1 || node->arg > 64)) return 0;
    if (SLOTS[node->op] && node->slot != *slots) return 0;
    *slots += SLOTS[node->op];
    if (*slots > w->n_slots) return 0;
    if (node->op > LIST && node->next != n + 1) return 0;
    node->leaf = node->op == LEVEL;
    for (int c = n + 1; c < node->next; c = w->nodes[c].next) {
        if (!check_node(w, c, node->next, depth + 1, node->op == LEVEL, slots)) return 0;
        if (node->kids[w->nodes[c].number]) return 0;
        node->kids[w->nodes[c].number] = c;
        if (w->nodes[c].op == LEVEL) node->leaf = 0;
    }
    return 1;
}

static char *copied(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static int load_node(Node *node, PyObject *row) {
    const char *name, *names;
    if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "iiiiiiss", &node->op, &node->number, &node->slot, &node->arg,
                                                 &node->next, &node->oneof, &name, &names))
        return -1;
    node->name = copied(name);
    node->names = copied(names);
    if (!node->name || !node->names) return PyErr_NoMemory(), -1;
    node->name_size = strlen(name);
    return 0;
}

/* An empty batch: offsets start with a zero. */
static int begin(Walker *w) {
    w->bytes = w->spread = w->unknown = w->repeated = 0;
    w->spread_before = w->unknown_before = w->repeated_before = 0;
    for (int i = 0; i < w->n_slots; i++) w->slots[i].length = w->slots[i].items = 0;
    const int32_t zero = 0;
    for (int n = 0; n < w->n_nodes; n++) {
        Node *node = &w->nodes[n];
        Slot *slot = &w->slots[node->slot];
        node->before = 0;
        for (int i = 0; i < SLOTS[node->op]; i++) {
            int numbers = node->op == FIXED64S || node->op == UINT64S || node->op == DOUBLES;
            int offsets = node->op == LIST || node->op == STRING || node->op == ID || node->op == ANY ||
                          node->op == ATTRIBUTES || node->op == STRINGS || (numbers && i == 0);
            int err = offsets ? append(w, &slot[i].main, &zero, 4) : OK;
            if (err) return err;
        }
    }
    return OK;
}

static int fail(int err) {
    if (err == MEMORY) PyErr_NoMemory();
    else PyErr_SetString(PyExc_ValueError, "not a program");
    return -1;
}

static int Walker_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    Walker *w = (Walker *)self;
    PyObject *rows;
    long long limit;
    int slots, strict, used = 0;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!iLp", &PyList_Type, &rows, &slots, &limit, &strict)) return -1;
    Py_ssize_t count = PyList_Size(rows);
    if (w->nodes || count < 1 || count > 4096 || slots < 1 || slots > 32768) return fail(VALUE);
    w->broken = 1;
    w->strict = strict;
    w->limit = limit < 0 ? 0 : limit > MAX_BYTES ? MAX_BYTES : limit;
    w->nodes = calloc((size_t)count, sizeof(Node));
    w->slots = calloc((size_t)slots, sizeof(Slot));
    w->cells = calloc((size_t)count, sizeof(Cell));
    w->found = calloc((size_t)count, sizeof(Entries));
    if (!w->nodes || !w->slots || !w->cells || !w->found) return fail(MEMORY);
    w->n_nodes = (int)count;
    w->n_slots = slots;
    for (Py_ssize_t i = 0; i < count; i++)
        if (load_node(&w->nodes[i], PyList_GetItem(rows, i))) return -1;
    int fine = w->nodes[0].next == count && w->nodes[0].op == LEVEL && check_node(w, 0, (int)count, 0, 1, &used);
    if (!fine || used != slots) return fail(VALUE);
    int err = begin(w);
    if (err) return fail(err);
    w->broken = 0;
    return 0;
}

static void Walker_dealloc(PyObject *self) {
    Walker *w = (Walker *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (int i = 0; i < w->n_slots; i++) {
        free(w->slots[i].valid.at);
        free(w->slots[i].main.at);
        free(w->slots[i].data.at);
    }
    for (int i = 0; i < w->n_nodes; i++) {
        free(w->nodes[i].name);
        free(w->nodes[i].names);
        free(w->found[i].at);
    }
    free(w->slots);
    free(w->nodes);
    free(w->cells);
    free(w->found);
    free(w->nested.at);
    free(w->bad.at);
    free(w->out.at);
    free(w->text.at);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* [(code, ((node, start, end), …))] */
static PyObject *noted(const Walker *w) {
    PyObject *list = PyList_New(0);
    const uint8_t *p = w->bad.at;
    for (int64_t i = 0; list && i < w->n_bad; i++) {
        int64_t head[2], place[3];
        memcpy(head, p, 16);
        p += 16;
        PyObject *chain = PyTuple_New((Py_ssize_t)head[1]), *item = NULL;
        for (Py_ssize_t k = 0; chain && k < head[1]; k++, p += 24) {
            memcpy(place, p, 24);
            PyObject *one = Py_BuildValue("(LLL)", (long long)place[0], (long long)place[1], (long long)place[2]);
            if (!one || PyTuple_SetItem(chain, k, one)) Py_CLEAR(chain);
        }
        if (chain) item = Py_BuildValue("(LN)", (long long)head[0], chain);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static int walk_request(Walker *w, const uint8_t *at, size_t size, long long parent, int json) {
    int err;
    w->bad.used = 0;
    w->n_bad = w->records = 0;
    w->depth = 0;
    w->nested.used = 0;
    w->base = at;
    w->spread_before = w->spread;
    w->unknown_before = w->unknown;
    w->repeated_before = w->repeated;
    for (int n = 0; n < w->n_nodes; n++)
        if (w->nodes[n].op == LEVEL) w->nodes[n].before = w->slots[w->nodes[n].slot].length;
    if (!json) return walk_level(w, 0, parent, at, at + size, 0);
    if ((err = put_request(w, at, size))) return err == SYNTAX ? OK : err;
    const int64_t n_bad = w->n_bad;
    w->base = w->out.at;
    err = walk_level(w, 0, parent, w->out.at, w->out.at + w->out.used, 0);
    if (!err && w->n_bad != n_bad) err = MANY; /* never seen: what JSON was taken for, protobuf takes too */
    return err;
}

static PyObject *Walker_feed(PyObject *self, PyObject *args) {
    Walker *w = (Walker *)self;
    PyObject *data, *bad;
    Py_buffer view;
    long long parent;
    int json;
    if (!PyArg_ParseTuple(args, "OLp", &data, &parent, &json)) return NULL;
    if (w->broken || parent < 0 || parent > INT32_MAX) {
        PyErr_SetString(PyExc_RuntimeError, "the walker has failed before, or was given no such request");
        return NULL;
    }
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    const uint8_t nothing = 0;
    int err = walk_request(w, view.buf ? view.buf : &nothing, (size_t)view.len, parent, json);
    PyBuffer_Release(&view);
    if (err == MEMORY) {
        w->broken = 1;
        return PyErr_NoMemory();
    }
    if (err) {
        undo(w);
        w->n_bad = 0;
    }
    if (!(bad = noted(w))) return NULL;
    return Py_BuildValue("(iLLN)", err, (long long)w->records, (long long)w->bytes, bad);
}

static PyObject *Walker_undo(PyObject *self, PyObject *unused) {
    Walker *w = (Walker *)self;
    (void)unused;
    if (!w->broken) undo(w);
    Py_RETURN_NONE;
}

static PyObject *release(Buf *buf) {
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)buf->at, (Py_ssize_t)buf->used);
    free(buf->at);
    *buf = (Buf){0};
    return bytes;
}

static PyObject *Walker_finish(PyObject *self, PyObject *unused) {
    Walker *w = (Walker *)self;
    (void)unused;
    if (w->broken) return PyErr_SetString(PyExc_RuntimeError, "the walker has failed before"), NULL;
    const long long unknown = w->unknown, repeated = w->repeated;
    PyObject *out = PyList_New(w->n_slots);
    for (int i = 0; out && i < w->n_slots; i++) {
        Slot *slot = &w->slots[i];
        PyObject *valid = release(&slot->valid), *values = release(&slot->main), *data = release(&slot->data);
        PyObject *item = valid && values && data
                             ? Py_BuildValue("(LOOO)", (long long)slot->length, valid, values, data) : NULL;
        Py_XDECREF(valid);
        Py_XDECREF(values);
        Py_XDECREF(data);
        if (!item || PyList_SetItem(out, i, item)) Py_CLEAR(out);
    }
    if (!out || begin(w)) {
        w->broken = 1;
        Py_XDECREF(out);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return Py_BuildValue("(NLL)", out, unknown, repeated);
}

static PyMethodDef methods[] = {
    {"feed", Walker_feed, METH_VARARGS,
     "feed(data, parent, json) -> (code, records, bytes, bad): one request; a code other than 0 took it back whole."},
    {"undo", Walker_undo, METH_NOARGS, "undo(): take the last request back."},
    {"finish", Walker_finish, METH_NOARGS,
     "finish() -> (slots, unknown, repeated): [(length, validity, values or offsets, data)]; begins the next batch."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot type_slots[] = {{Py_tp_init, Walker_init},     {Py_tp_dealloc, Walker_dealloc},
                                   {Py_tp_methods, methods},      {Py_tp_doc, "Walker(program, slots, limit, strict)"},
                                   {Py_tp_new, PyType_GenericNew}, {0, NULL}};

static PyType_Spec spec = {"esker.otlp._walk.Walker", sizeof(Walker), 0, Py_TPFLAGS_DEFAULT, type_slots};

static int exec_module(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    if (!type || PyModule_AddObject(module, "Walker", type)) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_walk", "The compiled walk; see _walk.c.", 0, NULL,
                             module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__walk(void) { return PyModuleDef_Init(&module); }
