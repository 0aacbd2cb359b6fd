/* Attributes to variants: rows of texts and their kinds, in Arrow's buffers, become objects in the variant encoding.
 *
 * What it makes is to the byte what variants.py makes, which it is given as the way out: a row that is not plain (more
 * than MAX_MEMBERS keys, a key twice, a text that is none of its kind, an array with objects in it) is left empty and
 * marked, and variants.py does it or says what is wrong with it.
 *
 * No input can make it leave its memory: every offset is checked against its neighbour and the end of its data, and
 * every append against the room that 32-bit offsets leave. The GIL is held: doubles are read as Python reads them. */

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MEMBERS 255
#define MAX_NUMBER 64 /* characters of a double */

enum { DONE, LEAVE, FAILED }; /* FAILED: a Python exception is set */
enum { SHORT_TEXT = 1, OBJECT = 2 };
enum { P_NULL = 0, P_TRUE = 1, P_FALSE = 2, P_INT8 = 3, P_DOUBLE = 7, P_BINARY = 15, P_TEXT = 16 };

typedef struct {
    uint8_t *at;
    size_t used, room;
} Buf;

typedef struct {
    const uint8_t *at;
    int64_t size;
} Text;

/* A map of texts: bits and offsets of rows, and texts of keys and items. */
typedef struct {
    Py_buffer views[7];
    const uint8_t *valid, *item_valid;
    const int32_t *offsets, *keys, *items;
    int64_t n_keys, n_items;
} Maps;

typedef struct {
    Maps values, kinds;
    Buf metadata, data, scratch;
    Text keys[MAX_MEMBERS]; /* of the row at hand, as they come */
    int order[MAX_MEMBERS]; /* their places, in the order of their bytes */
    Text known[MAX_MEMBERS]; /* keys of the row before */
    int n_known;             /* -1: there is none */
    size_t known_start, known_size; /* its metadata */
    PyObject *nested, *memory;
} Work;

static int reserve(Buf *buf, size_t size) {
    if (size > (size_t)INT32_MAX - buf->used) {
        PyErr_SetString(PyExc_OverflowError, "the variants of one batch take more than 2 GB");
        return FAILED;
    }
    if (buf->used + size > buf->room) {
        size_t room = buf->room ? buf->room * 2 : 1 << 16;
        while (room < buf->used + size) room *= 2;
        uint8_t *at = realloc(buf->at, room);
        if (!at) {
            PyErr_NoMemory();
            return FAILED;
        }
        buf->at = at;
        buf->room = room;
    }
    return DONE;
}

static int append(Buf *buf, const void *from, size_t size) {
    if (reserve(buf, size)) return FAILED;
    if (size) memcpy(buf->at + buf->used, from, size);
    buf->used += size;
    return DONE;
}

static int append_number(Buf *buf, uint64_t number, int width) {
    uint8_t bytes[8];
    for (int i = 0; i < width; i++) bytes[i] = (uint8_t)(number >> 8 * i);
    return append(buf, bytes, (size_t)width);
}

static int width_of(uint64_t number) { return number >> 24 ? 4 : number >> 16 ? 3 : number >> 8 ? 2 : 1; }

static int bit(const uint8_t *bits, int64_t at) { return !bits || (bits[at >> 3] >> (at & 7) & 1); }

/* A text between two offsets, which are trusted as little as any input. */
static int text_at(const int32_t *offsets, int64_t count, const Py_buffer *data, int64_t at, Text *text) {
    if (at < 0 || at >= count) return LEAVE;
    const int32_t start = offsets[at], end = offsets[at + 1];
    if (start < 0 || end < start || end > data->len) return LEAVE;
    *text = (Text){(const uint8_t *)data->buf + start, end - start};
    return DONE;
}

static int compare(const Text *a, const Text *b) {
    const int64_t size = a->size < b->size ? a->size : b->size;
    const int first = size ? memcmp(a->at, b->at, (size_t)size) : 0;
    return first ? first : (a->size > b->size) - (a->size < b->size);
}

static int same(const Text *a, const Text *b) { return a->size == b->size && !compare(a, b); }

static int is_word(const Text *text, const char *word) {
    return text->size == (int64_t)strlen(word) && !memcmp(text->at, word, (size_t)text->size);
}

/* ---- values ---- */

static int write_text(Buf *out, int kind, const uint8_t *at, size_t size) {
    int err = append_number(out, (uint64_t)kind << 2, 1);
    if (!err) err = append_number(out, size, 4);
    return err ? err : append(out, at, size);
}

static int write_string(Buf *out, const Text *text) {
    if (text->size > 63) return write_text(out, P_TEXT, text->at, (size_t)text->size);
    int err = append_number(out, (uint64_t)text->size << 2 | SHORT_TEXT, 1);
    return err ? err : append(out, text->at, (size_t)text->size);
}

static int write_int(Buf *out, const Text *text) {
    const uint8_t *p = text->at, *end = p + text->size;
    const int negative = p < end && *p == '-';
    uint64_t size = 0;
    p += negative;
    if (p == end || end - p > 19) return LEAVE;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') return LEAVE;
        size = size * 10 + (uint64_t)(*p - '0'); /* 19 digits fit */
    }
    if (size > (uint64_t)INT64_MAX + (uint64_t)negative) return LEAVE;
    const uint64_t bits = negative ? 0 - size : size, above = negative && size ? size - 1 : size;
    const int kind = above >> 31 ? 3 : above >> 15 ? 2 : above >> 7 ? 1 : 0;
    int err = append_number(out, (uint64_t)(P_INT8 + kind) << 2, 1);
    return err ? err : append_number(out, bits, 1 << kind);
}

static int write_double(Buf *out, const Text *text) {
    char copy[MAX_NUMBER + 1];
    uint64_t bits;
    if (text->size > MAX_NUMBER || !text->size || memchr(text->at, 0, (size_t)text->size)) return LEAVE;
    memcpy(copy, text->at, (size_t)text->size);
    copy[text->size] = 0;
    const double number = PyOS_string_to_double(copy, NULL, NULL);
    if (number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return LEAVE;
    }
    memcpy(&bits, &number, 8);
    int err = append_number(out, P_DOUBLE << 2, 1);
    return err ? err : append_number(out, bits, 8);
}

static int base64_of(uint8_t sign) {
    if (sign >= 'A' && sign <= 'Z') return sign - 'A';
    if (sign >= 'a' && sign <= 'z') return sign - 'a' + 26;
    if (sign >= '0' && sign <= '9') return sign - '0' + 52;
    return sign == '+' ? 62 : sign == '/' ? 63 : -1;
}

static int write_bytes(Buf *out, const Text *text) {
    int64_t size = text->size;
    if (size % 4) return LEAVE;
    while (size && size > text->size - 2 && text->at[size - 1] == '=') size--;
    const int64_t length = size * 3 / 4;
    int err = append_number(out, P_BINARY << 2, 1);
    if (!err) err = append_number(out, (uint64_t)length, 4);
    uint32_t bits = 0;
    int held = 0;
    for (int64_t i = 0; i < size && !err; i++) {
        const int more = base64_of(text->at[i]);
        if (more < 0) return LEAVE;
        bits = bits << 6 | (uint32_t)more;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        err = append_number(out, bits >> held & 0xFF, 1);
    }
    return err;
}

/* An array or a kvlist: bytes as nested() gives them, None where they depend on the row's other keys. */
static int write_nested(Work *w, const Text *text) {
    PyObject *key = PyBytes_FromStringAndSize((const char *)text->at, (Py_ssize_t)text->size);
    if (!key) return FAILED;
    PyObject *found = PyDict_GetItemWithError(w->memory, key);
    if (!found && !PyErr_Occurred()) {
        PyObject *made = PyObject_CallFunctionObjArgs(w->nested, key, NULL);
        if (made && !PyDict_SetItem(w->memory, key, made)) found = made; /* the dict holds it from here on */
        Py_XDECREF(made);
    }
    Py_DECREF(key);
    if (!found) return FAILED;
    char *at;
    Py_ssize_t size;
    if (found == Py_None) return LEAVE;
    if (PyBytes_AsStringAndSize(found, &at, &size) < 0) return FAILED;
    return append(&w->scratch, at, (size_t)size);
}

static int write_value(Work *w, const Text *kind, const Text *text) {
    Buf *out = &w->scratch;
    if (!kind) return write_string(out, text);
    if (is_word(kind, "int")) return write_int(out, text);
    if (is_word(kind, "double")) return write_double(out, text);
    if (is_word(kind, "bytes")) return write_bytes(out, text);
    if (is_word(kind, "array") || is_word(kind, "kvlist")) return write_nested(w, text);
    if (is_word(kind, "bool")) {
        const int yes = is_word(text, "true");
        if (!yes && !is_word(text, "false")) return LEAVE;
        return append_number(out, (uint64_t)(yes ? P_TRUE : P_FALSE) << 2, 1);
    }
    return LEAVE;
}

/* ---- rows ---- */

/* The kind told of a key; rows tell them in the order of their keys as a rule, so the search goes on where it was. */
static int kind_of(const Maps *kinds, int64_t start, int64_t end, int64_t *from, const Text *key, Text *kind, int *told) {
    *told = 0;
    for (int64_t tried = start; tried < end; tried++) {
        Text name;
        if (*from >= end) *from = start;
        const int64_t at = (*from)++;
        if (text_at(kinds->keys, kinds->n_keys, &kinds->views[3], at, &name)) return LEAVE;
        if (!same(&name, key)) continue;
        *told = 1;
        if (!bit(kinds->item_valid, at)) return LEAVE;
        return text_at(kinds->items, kinds->n_items, &kinds->views[6], at, kind);
    }
    return DONE;
}

static int sort_keys(Work *w, int count) {
    for (int i = 0; i < count; i++) {
        int j = i;
        for (; j > 0; j--) {
            const int order = compare(&w->keys[w->order[j - 1]], &w->keys[i]);
            if (!order) return LEAVE;
            if (order < 0) break;
            w->order[j] = w->order[j - 1];
        }
        w->order[j] = i;
    }
    return DONE;
}

static int write_metadata(Work *w, int count) {
    Buf *out = &w->metadata;
    size_t total = 0;
    for (int i = 0; i < count; i++) total += (size_t)w->keys[i].size;
    if (total > INT32_MAX) return LEAVE;
    const int width = width_of(total > (size_t)count ? total : (size_t)count);
    int err = append_number(out, 0x11 | (uint64_t)(width - 1) << 6, 1);
    if (!err) err = append_number(out, (uint64_t)count, width);
    total = 0;
    if (!err) err = append_number(out, 0, width);
    for (int i = 0; i < count && !err; i++) err = append_number(out, total += (size_t)w->keys[w->order[i]].size, width);
    for (int i = 0; i < count && !err; i++) {
        const Text *key = &w->keys[w->order[i]];
        err = append(out, key->at, (size_t)key->size);
    }
    return err;
}

/* The metadata and the order of keys; those of the row before where its keys were the same. */
static int take_keys(Work *w, int count) {
    int again = count == w->n_known;
    for (int i = 0; i < count && again; i++) again = same(&w->keys[i], &w->known[i]);
    if (again) { /* room is made first, so that what is copied does not move meanwhile */
        if (reserve(&w->metadata, w->known_size)) return FAILED;
        return append(&w->metadata, w->metadata.at + w->known_start, w->known_size);
    }
    const size_t start = w->metadata.used;
    w->n_known = -1;
    int err = sort_keys(w, count);
    if (!err) err = write_metadata(w, count);
    if (err) return err;
    memcpy(w->known, w->keys, sizeof(Text) * (size_t)count);
    w->n_known = count;
    w->known_start = start;
    w->known_size = w->metadata.used - start;
    return DONE;
}

static int write_row(Work *w, int64_t row) {
    const Maps *values = &w->values, *kinds = &w->kinds;
    const int64_t start = values->offsets[row], end = values->offsets[row + 1];
    int64_t told_start = 0, told_end = 0;
    if (start < 0 || end < start || end > values->n_keys || end - start > MAX_MEMBERS) return LEAVE;
    if (bit(kinds->valid, row)) {
        told_start = kinds->offsets[row];
        told_end = kinds->offsets[row + 1];
        if (told_start < 0 || told_end < told_start || told_end > kinds->n_keys) return LEAVE;
    }
    const int count = (int)(end - start);
    for (int i = 0; i < count; i++)
        if (text_at(values->keys, values->n_keys, &values->views[3], start + i, &w->keys[i])) return LEAVE;
    int err = take_keys(w, count);
    uint32_t ends[MAX_MEMBERS];
    int64_t from = told_start;
    w->scratch.used = 0;
    for (int i = 0; i < count && !err; i++) {
        const int64_t at = start + w->order[i];
        Text kind, text;
        int told = 0;
        if (!bit(values->item_valid, at)) {
            err = append_number(&w->scratch, P_NULL, 1);
        } else {
            err = text_at(values->items, values->n_items, &values->views[6], at, &text);
            if (!err) err = kind_of(kinds, told_start, told_end, &from, &w->keys[w->order[i]], &kind, &told);
            if (!err) err = write_value(w, told ? &kind : NULL, &text);
        }
        ends[i] = (uint32_t)w->scratch.used;
    }
    if (err) return err;
    const int width = width_of(w->scratch.used);
    err = append_number(&w->data, (uint64_t)(width - 1) << 2 | OBJECT, 1);
    if (!err) err = append_number(&w->data, (uint64_t)count, 1);
    for (int i = 0; i < count && !err; i++) err = append_number(&w->data, (uint64_t)i, 1);
    if (!err) err = append_number(&w->data, 0, width);
    for (int i = 0; i < count && !err; i++) err = append_number(&w->data, ends[i], width);
    return err ? err : append(&w->data, w->scratch.at, w->scratch.used);
}

static int write_rows(Work *w, int64_t rows, int32_t *metadata, int32_t *data, uint8_t *left) {
    metadata[0] = data[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (bit(w->values.valid, row)) {
            int err = write_row(w, row);
            if (err == FAILED) return -1;
            if (err) { /* variants.py has its own word on it */
                w->metadata.used = (size_t)metadata[row];
                w->data.used = (size_t)data[row];
                w->n_known = -1;
                left[row] = 1;
            }
        }
        metadata[row + 1] = (int32_t)w->metadata.used;
        data[row + 1] = (int32_t)w->data.used;
    }
    return 0;
}

/* ---- Python ---- */

static void close_maps(Maps *maps) {
    for (int i = 0; i < 7; i++)
        if (maps->views[i].obj) PyBuffer_Release(&maps->views[i]);
}

/* Of a tuple: bits and offsets of rows; bits, offsets and data of keys; the same of items. Bits may be None. */
static int open_maps(Maps *maps, PyObject *given, int64_t rows) {
    static const int PLACES[] = {0, 1, 3, 4, 5, 6, 7}; /* the bits of keys, which have none, are left out */
    if (!PyTuple_Check(given) || PyTuple_Size(given) != 8) {
        PyErr_SetString(PyExc_TypeError, "maps are tuples of eight buffers");
        return -1;
    }
    Py_buffer found[7];
    memset(found, 0, sizeof found);
    for (int i = 0; i < 7; i++) {
        PyObject *buffer = PyTuple_GetItem(given, PLACES[i]);
        if (buffer == Py_None) continue;
        if (PyObject_GetBuffer(buffer, &found[i], PyBUF_SIMPLE) < 0) {
            for (int j = 0; j < i; j++)
                if (found[j].obj) PyBuffer_Release(&found[j]);
            return -1;
        }
    }
    /* as views: 0 row bits, 1 row offsets, 2 key offsets, 3 key data, 4 item bits, 5 item offsets, 6 item data */
    memcpy(maps->views, found, sizeof found);
    maps->valid = found[0].buf;
    maps->offsets = found[1].buf;
    maps->keys = found[2].buf;
    maps->item_valid = found[4].buf;
    maps->items = found[5].buf;
    maps->n_keys = found[2].len / 4 - 1;
    maps->n_items = found[5].len / 4 - 1;
    if (found[1].len / 4 < rows + 1 || (found[0].obj && found[0].len * 8 < rows)) {
        PyErr_SetString(PyExc_ValueError, "a buffer of a map is too short");
        return -1;
    }
    if (maps->n_items < maps->n_keys) maps->n_keys = maps->n_items;
    if (found[4].obj && found[4].len * 8 < maps->n_keys) maps->n_keys = found[4].len * 8;
    return 0;
}

static PyObject *encode_rows(PyObject *self, PyObject *args) {
    PyObject *values, *kinds, *nested, *answer = NULL;
    Py_ssize_t rows;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOnO", &values, &kinds, &rows, &nested)) return NULL;
    if (rows < 0 || rows > INT32_MAX - 1) {
        PyErr_SetString(PyExc_ValueError, "no such number of rows");
        return NULL;
    }
    Work *w = calloc(1, sizeof(Work));
    int32_t *metadata = malloc(4 * (size_t)(rows + 1)), *data = malloc(4 * (size_t)(rows + 1));
    uint8_t *left = calloc((size_t)rows + 1, 1);
    if (!w || !metadata || !data || !left) {
        PyErr_NoMemory();
        goto done;
    }
    w->n_known = -1;
    w->nested = nested;
    if (open_maps(&w->values, values, rows) || open_maps(&w->kinds, kinds, rows)) goto done;
    if (!(w->memory = PyDict_New()) || write_rows(w, rows, metadata, data, left)) goto done;
    answer = Py_BuildValue("(y#y#y#y#y#)", (char *)metadata, 4 * (rows + 1), (char *)w->metadata.at,
                           (Py_ssize_t)w->metadata.used, (char *)data, 4 * (rows + 1), (char *)w->data.at,
                           (Py_ssize_t)w->data.used, (char *)left, rows);
done:
    if (w) {
        close_maps(&w->values);
        close_maps(&w->kinds);
        Py_XDECREF(w->memory);
        free(w->metadata.at);
        free(w->data.at);
        free(w->scratch.at);
    }
    free(w);
    free(metadata);
    free(data);
    free(left);
    return answer;
}

static PyMethodDef METHODS[] = {
    {"encode_rows", encode_rows, METH_VARARGS,
     "Offsets and bytes of metadata and of values, and a byte for each row: 1 where it was left out."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_variants", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__variants(void) { return PyModule_Create(&MODULE); }
