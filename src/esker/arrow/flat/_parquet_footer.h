/* Footers: where the schema ends, where the chunks of wanted columns are, and their statistics. */

typedef struct {
    int64_t type, codec, values, length, data_page, dictionary_page;
} ChunkFacts;

static int chunk_facts(Cursor *c, ChunkFacts *facts) {
    int64_t id = 0;
    int kind, more;
    while ((more = field(c, &id, &kind)) > 0) {
        int64_t *into = NULL;
        switch (id) {
        case 1: into = &facts->type; break;
        case 4: into = &facts->codec; break;
        case 5: into = &facts->values; break;
        case 7: into = &facts->length; break;
        case 9: into = &facts->data_page; break;
        case 11: into = &facts->dictionary_page; break;
        }
        if (into == NULL ? !skip(c, kind, 0) : (kind != T_I32 && kind != T_I64) || !number(c, into)) return 0;
    }
    return more == 0;
}

static int column_chunk(Cursor *c, ChunkFacts *facts) {
    int64_t id = 0;
    int kind, more, found = 0;
    while ((more = field(c, &id, &kind)) > 0) {
        if (id == 1 || id >= 8) return 0; /* stored in another file, or encrypted */
        if (id == 3 && kind == T_STRUCT && !found) {
            if (!chunk_facts(c, facts)) return 0;
            found = 1;
        } else if (!skip(c, kind, 0)) {
            return 0;
        }
    }
    return more == 0 && found;
}

/* The chunks of the wanted leaves, as a tuple of (start, length, values, codec, type) each. */
static PyObject *chunks_of(Cursor *c, PyObject *leaves, Py_ssize_t columns) {
    uint64_t count;
    int kind;
    Py_ssize_t wanted = PyTuple_Size(leaves), next = 0;
    if (!list(c, &count, &kind) || kind != T_STRUCT || (Py_ssize_t)count != columns) return NULL;
    PyObject *found = PyTuple_New(wanted);
    if (!found) return NULL;
    for (Py_ssize_t at = 0; at < columns; at++) {
        if (next == wanted || PyLong_AsSsize_t(PyTuple_GetItem(leaves, next)) != at) {
            if (!skip(c, T_STRUCT, 0)) goto failed;
            continue;
        }
        ChunkFacts facts = {-1, -1, -1, -1, -1, -1};
        if (!column_chunk(c, &facts)) goto failed;
        int64_t start = facts.data_page;
        if (facts.dictionary_page > 0 && facts.dictionary_page < start) start = facts.dictionary_page;
        PyObject *chunk = Py_BuildValue("(LLLLL)", (long long)start, (long long)facts.length, (long long)facts.values,
                                        (long long)facts.codec, (long long)facts.type);
        if (!chunk) goto failed;
        PyTuple_SetItem(found, next++, chunk);
    }
    if (next == wanted) return found;
failed:
    Py_DECREF(found);
    return NULL;
}

/* A row group as (rows, chunks). */
static PyObject *row_group(Cursor *c, PyObject *leaves, Py_ssize_t columns) {
    int64_t id = 0, rows = -1;
    int kind, more;
    PyObject *chunks = NULL;
    while ((more = field(c, &id, &kind)) > 0) {
        if (id == 1 && kind == T_LIST && !chunks) {
            if (!(chunks = chunks_of(c, leaves, columns))) return NULL;
        } else if (id == 3 && kind == T_I64 ? !number(c, &rows) : !skip(c, kind, 0)) {
            break;
        }
    }
    if (more == 0 && chunks && rows >= 0) return Py_BuildValue("(LN)", (long long)rows, chunks);
    Py_XDECREF(chunks);
    return NULL;
}

/* Whether the entries say the same about Arrow's schema as the footer that the layout was made from. */
static int same_arrow_schema(Cursor *c, const uint8_t *known, Py_ssize_t length) {
    static const char name[] = "ARROW:schema";
    uint64_t count, key_length = 0, value_length = 0;
    int kind, seen = 0;
    if (!list(c, &count, &kind) || kind != T_STRUCT) return 0;
    while (count--) {
        int64_t id = 0;
        int inner, more;
        const uint8_t *key = NULL, *value = NULL;
        while ((more = field(c, &id, &inner)) > 0) {
            if (id == 1 && inner == T_BINARY ? !binary(c, &key, &key_length)
                : id == 2 && inner == T_BINARY ? !binary(c, &value, &value_length)
                                               : !skip(c, inner, 0))
                return 0;
        }
        if (more) return 0;
        if (key && key_length == sizeof name - 1 && !memcmp(key, name, sizeof name - 1)) {
            if (!known || !value || value_length != (uint64_t)length || memcmp(value, known, length)) return 0;
            seen = 1;
        }
    }
    return seen || !known;
}

static PyObject *none_unless_error(void) {
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *schema_end(PyObject *self, PyObject *args) {
    (void)self;
    const char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#", &data, &size)) return NULL;
    Cursor c = {(const uint8_t *)data, (const uint8_t *)data + size};
    int64_t id = 0;
    int kind;
    if (field(&c, &id, &kind) < 1 || id != 1 || kind != T_I32 || !skip(&c, kind, 0)) Py_RETURN_NONE;
    if (field(&c, &id, &kind) < 1 || id != 2 || kind != T_LIST || !skip(&c, kind, 0)) Py_RETURN_NONE;
    return PyLong_FromSsize_t((Py_ssize_t)(c.p - (const uint8_t *)data));
}

static PyObject *row_groups(PyObject *self, PyObject *args) {
    (void)self;
    const char *data, *known;
    Py_ssize_t size, start, columns, known_size;
    PyObject *leaves;
    if (!PyArg_ParseTuple(args, "y#nO!nz#", &data, &size, &start, &PyTuple_Type, &leaves, &columns, &known,
                          &known_size))
        return NULL;
    if (start < 0 || start > size) Py_RETURN_NONE;
    Cursor c = {(const uint8_t *)data + start, (const uint8_t *)data + size};
    int64_t id = 2; /* the schema is before it */
    int kind, more, entries = 0;
    PyObject *groups = NULL;
    while ((more = field(&c, &id, &kind)) > 0) {
        uint64_t count;
        int inner;
        if (id == 4 && kind == T_LIST && !groups) {
            if (!list(&c, &count, &inner) || inner != T_STRUCT || !(groups = PyList_New(0))) goto odd;
            while (count--) {
                PyObject *group = row_group(&c, leaves, columns);
                if (!group) goto odd;
                int failed = PyList_Append(groups, group);
                Py_DECREF(group);
                if (failed) goto odd;
            }
        } else if (id == 5 && kind == T_LIST && !entries) {
            if (!same_arrow_schema(&c, (const uint8_t *)known, known_size)) goto odd;
            entries = 1;
        } else if (id == 8 || id == 9 || !skip(&c, kind, 0)) { /* encrypted, or no sense */
            goto odd;
        }
    }
    if (more == 0 && groups && (entries || !known)) return groups;
odd:
    Py_XDECREF(groups);
    return none_unless_error();
}

/* ---- statistics ---- */

enum { OLD_MAX = 1, OLD_MIN = 2, NULL_COUNT = 3, MAX = 5, MIN = 6, BOUNDS = 7 };

typedef struct {
    int64_t values, nulls; /* -1: not known. No count is negative */
    const uint8_t *at[BOUNDS];
    uint64_t length[BOUNDS];
} Bounds;

static int is_number(int kind) { return kind == T_I16 || kind == T_I32 || kind == T_I64; }

static int bounds_of(Cursor *c, Bounds *found) {
    int64_t id = 0;
    int kind, more;
    while ((more = field(c, &id, &kind)) > 0) {
        int is_bound = id == OLD_MAX || id == OLD_MIN || id == MAX || id == MIN;
        if (id == NULL_COUNT ? !is_number(kind) || !number(c, &found->nulls)
            : is_bound       ? kind != T_BINARY || !binary(c, &found->at[id], &found->length[id])
                             : !skip(c, kind, 0))
            return 0;
    }
    return more == 0;
}

/* The metadata of a column chunk (level 1), inside of the chunk (level 0). */
static int chunk_bounds(Cursor *c, Bounds *found, int level) {
    int64_t id = 0;
    int kind, more;
    while ((more = field(c, &id, &kind)) > 0) {
        if (!level && id == 3 && kind == T_STRUCT     ? !chunk_bounds(c, found, 1)
            : level && id == 5                        ? !is_number(kind) || !number(c, &found->values)
            : level && id == 12 && kind == T_STRUCT   ? !bounds_of(c, found)
                                                      : !skip(c, kind, 0))
            return 0;
    }
    return more == 0;
}

static PyObject *count_or_none(int64_t count) {
    if (count >= 0) return PyLong_FromLongLong(count);
    Py_INCREF(Py_None);
    return Py_None;
}

/* For each wanted leaf (values, nulls, minimum, maximum, older minimum, older maximum), None where not known. */
static PyObject *leaf_bounds(Cursor *c, PyObject *leaves) {
    uint64_t count;
    int kind;
    Py_ssize_t wanted = PyTuple_Size(leaves), next = 0;
    if (!list(c, &count, &kind) || kind != T_STRUCT) return NULL;
    PyObject *found = PyTuple_New(wanted);
    if (!found) return NULL;
    for (Py_ssize_t at = 0; at < (Py_ssize_t)count; at++) {
        if (next == wanted || PyLong_AsSsize_t(PyTuple_GetItem(leaves, next)) != at) {
            if (!skip(c, T_STRUCT, 0)) goto failed;
            continue;
        }
        Bounds held = {.values = -1, .nulls = -1};
        if (!chunk_bounds(c, &held, 0)) goto failed;
        PyObject *facts = Py_BuildValue(
            "(NNy#y#y#y#)", count_or_none(held.values), count_or_none(held.nulls), (const char *)held.at[MIN],
            (Py_ssize_t)held.length[MIN], (const char *)held.at[MAX], (Py_ssize_t)held.length[MAX],
            (const char *)held.at[OLD_MIN], (Py_ssize_t)held.length[OLD_MIN], (const char *)held.at[OLD_MAX],
            (Py_ssize_t)held.length[OLD_MAX]);
        if (!facts) goto failed;
        PyTuple_SetItem(found, next++, facts);
    }
    if (next == wanted) return found;
failed:
    Py_DECREF(found);
    return NULL;
}

static PyObject *group_bounds(Cursor *c, PyObject *leaves) {
    int64_t id = 0, rows = -1;
    int kind, more;
    PyObject *columns = NULL;
    while ((more = field(c, &id, &kind)) > 0) {
        if (id == 1 && kind == T_LIST && !columns) {
            if (!(columns = leaf_bounds(c, leaves))) return NULL;
        } else if (id == 3 ? !is_number(kind) || !number(c, &rows) : !skip(c, kind, 0)) {
            break;
        }
    }
    if (more == 0 && columns && rows >= 0) return Py_BuildValue("(LN)", (long long)rows, columns);
    Py_XDECREF(columns);
    return NULL;
}

/* The physical types of the wanted leaves: those elements of the schema, without its root, that have no children. */
static int leaf_types(Cursor *c, PyObject *leaves, PyObject *types) {
    uint64_t count;
    int kind;
    Py_ssize_t leaf = 0;
    if (!list(c, &count, &kind) || kind != T_STRUCT) return 0;
    for (uint64_t at = 0; at < count; at++) {
        int64_t id = 0, type = -1, children = 0;
        int inner, more;
        while ((more = field(c, &id, &inner)) > 0) {
            int64_t *into = id == 1 ? &type : id == 5 ? &children : NULL;
            if (into && is_number(inner) ? !number(c, into) : !skip(c, inner, 0)) return 0;
        }
        if (more) return 0;
        if (!at || children) continue;
        Py_ssize_t next = PyList_Size(types);
        if (next < PyTuple_Size(leaves) && PyLong_AsSsize_t(PyTuple_GetItem(leaves, next)) == leaf) {
            PyObject *found = PyLong_FromLongLong(type);
            int failed = !found || PyList_Append(types, found);
            Py_XDECREF(found);
            if (failed) return 0;
        }
        leaf++;
    }
    return PyList_Size(types) == PyTuple_Size(leaves);
}

/* Whether the columns have an order, the physical types of the leaves, and the row groups as (rows, leaves). */
static PyObject *statistics(PyObject *self, PyObject *args) {
    (void)self;
    const char *data;
    Py_ssize_t size;
    PyObject *leaves;
    if (!PyArg_ParseTuple(args, "y#O!", &data, &size, &PyTuple_Type, &leaves)) return NULL;
    Cursor c = {(const uint8_t *)data, (const uint8_t *)data + size};
    int64_t id = 0;
    int kind, more, ordered = 0, has_types = 0, has_groups = 0;
    PyObject *types = PyList_New(0), *groups = PyList_New(0);
    if (!types || !groups) goto odd;
    while ((more = field(&c, &id, &kind)) > 0) {
        uint64_t count;
        int inner;
        if (id == 2 && kind == T_LIST && !has_types) {
            if (!leaf_types(&c, leaves, types)) goto odd;
            has_types = 1;
        } else if (id == 4 && kind == T_LIST && !has_groups) {
            if (!list(&c, &count, &inner) || inner != T_STRUCT) goto odd;
            has_groups = 1;
            while (count--) {
                PyObject *group = group_bounds(&c, leaves);
                if (!group) goto odd;
                int failed = PyList_Append(groups, group);
                Py_DECREF(group);
                if (failed) goto odd;
            }
        } else {
            ordered |= id == 7;
            if (!skip(&c, kind, 0)) goto odd;
        }
    }
    if (more == 0 && has_types) return Py_BuildValue("(iNN)", ordered, types, groups);
odd:
    Py_XDECREF(types);
    Py_XDECREF(groups);
    return none_unless_error();
}
