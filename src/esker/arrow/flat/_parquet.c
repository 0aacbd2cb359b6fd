/* Parquet without objects per file: footers walked, and the chunks of one flat column of many files decoded into one
 * set of Arrow buffers. It knows what nearly all files have: data pages of both versions, plain and dictionary
 * encodings, no nesting. Everything else raises ValueError (or gives None for a footer), and the caller lets pyarrow
 * read the file, which also words the error of a damaged one.
 *
 * The input may be hostile:
 *   - every read of a page is checked against its end, every index against the dictionary;
 *   - the rows of the result are counted against the room that the caller made;
 *   - sizes in headers are bounded before memory is asked for. */

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_parquet_thrift.h"
#include "_parquet_footer.h"
#include "_parquet_values.h"
#include "_parquet_snappy.h"

#define LARGEST_PAGE (256 << 20)
#define FEW 8192 /* rows that are read with the interpreter's lock held */

enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 };

typedef struct {
    int64_t kind, size, stored; /* bytes when unpacked, and in the file */
    int64_t values, encoding, level_encoding, nulls, rows, level_bytes, repetition_bytes;
    int is_packed;
} Page;

/* The header of a data page of version 1 (5), of a dictionary page (7), or of a data page of version 2 (8). */
static int page_facts(Cursor *c, Page *page, int64_t which) {
    int64_t id = 0;
    int kind, more;
    while ((more = field(c, &id, &kind)) > 0) {
        int64_t *into = NULL;
        if (id == 1) into = &page->values;
        if (which == 8) {
            if (id == 2) into = &page->nulls;
            if (id == 3) into = &page->rows;
            if (id == 4) into = &page->encoding;
            if (id == 5) into = &page->level_bytes;
            if (id == 6) into = &page->repetition_bytes;
            if (id == 7 && (kind == T_TRUE || kind == T_FALSE)) page->is_packed = kind == T_TRUE;
        } else {
            if (id == 2) into = &page->encoding;
            if (id == 3 && which == 5) into = &page->level_encoding;
        }
        if (into == NULL ? !skip(c, kind, 0) : kind != T_I32 || !number(c, into)) return 0;
    }
    return more == 0;
}

static int page_header(Cursor *c, Page *page) {
    int64_t id = 0;
    int kind, more;
    *page = (Page){.kind = -1, .size = -1, .stored = -1, .values = -1, .encoding = -1, .is_packed = 1};
    page->level_encoding = ENC_RLE;
    while ((more = field(c, &id, &kind)) > 0) {
        int done;
        switch (id) {
        case 1: done = kind == T_I32 && number(c, &page->kind); break;
        case 2: done = kind == T_I32 && number(c, &page->size); break;
        case 3: done = kind == T_I32 && number(c, &page->stored); break;
        case 5:
        case 7:
        case 8: done = kind == T_STRUCT && page_facts(c, page, id); break;
        default: done = skip(c, kind, 0);
        }
        if (!done) return 0;
    }
    return more == 0 && page->size >= 0 && page->size <= LARGEST_PAGE && page->stored >= 0 && page->values >= 0 &&
           page->level_bytes >= 0 && page->repetition_bytes == 0 && page->stored <= c->end - c->p;
}

/* The unpacked bytes of a page. */
static int data_page(Column *col, const Page *page, const uint8_t *levels_at, const uint8_t *p, const uint8_t *end) {
    const uint8_t *levels = NULL, *levels_end = levels_at + page->level_bytes;
    int64_t there = page->values;
    if (col->optional) {
        if (page->kind == DATA_PAGE) {
            if (page->level_encoding != ENC_RLE || end - p < 4 || u32(p) > end - p - 4) return 0;
            levels_at = p + 4;
            p = levels_end = levels_at + u32(p);
        }
        there = levels_of(col, levels_at, levels_end, page->values, &levels);
        if (there < 0) return 0;
    }
    return read_values(col, p, end, (int)page->encoding, page->values, there, levels);
}

static int unpacked_page(Column *col, const Page *page, const uint8_t *levels_at, const uint8_t *p, int64_t size) {
    if (page->kind == DICTIONARY_PAGE) {
        if (page->encoding != ENC_PLAIN && page->encoding != ENC_PLAIN_DICTIONARY) return 0;
        return read_dictionary(col, p, p + size, page->values);
    }
    return data_page(col, page, levels_at, p, p + size);
}

/* ---- unpacking: Snappy here, zstd's own library if the machine has it, else a function of the caller ---- */

static struct {
    void *(*create)(void);
    size_t (*destroy)(void *);
    size_t (*unpack)(void *, void *, size_t, const void *, size_t);
} zstd; /* set once, while the module is imported; all NULL without the library */

enum { SNAPPY = 1, ZSTD = 6 };

/* A piece of the column: one chunk of one file. */
typedef struct {
    Py_buffer view;
    const uint8_t *p, *end;
    int64_t values;
    int codec;
    PyObject *unpack;
} Segment;

typedef struct {
    void *context;
    Scratch page;
} Unpacker;

static int unpack_zstd(Unpacker *unpacker, const uint8_t *p, int64_t stored, int64_t size) {
    if (!unpacker->context && !(unpacker->context = zstd.create())) return 0;
    if (!sized(&unpacker->page, (size_t)size + PAD)) return 0;
    /* An error is a size that no page has. */
    return zstd.unpack(unpacker->context, unpacker->page.at, (size_t)size, p, (size_t)stored) == (size_t)size;
}

static int unpack_here(Unpacker *unpacker, const uint8_t *p, int64_t stored, int64_t size) {
    return sized(&unpacker->page, (size_t)size + PAD) && unpack_snappy(unpacker->page.at, size, p, p + stored);
}

/* By the caller's function, into the same scratch. Called with or without the interpreter's lock. */
static int unpack_outside(Unpacker *unpacker, PyObject *unpack, const uint8_t *p, int64_t stored, int64_t size) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_buffer view = {0};
    PyObject *unpacked = NULL, *packed = PyMemoryView_FromMemory((char *)p, (Py_ssize_t)stored, PyBUF_READ);
    if (packed) unpacked = PyObject_CallFunction(unpack, "On", packed, (Py_ssize_t)size);
    int done = unpacked && !PyObject_GetBuffer(unpacked, &view, PyBUF_SIMPLE);
    if (done) {
        done = view.len == (Py_ssize_t)size && sized(&unpacker->page, (size_t)size + PAD);
        if (done && size) memcpy(unpacker->page.at, view.buf, (size_t)size);
        PyBuffer_Release(&view);
    }
    Py_XDECREF(unpacked);
    Py_XDECREF(packed);
    PyGILState_Release(state);
    return done;
}

/* Read one page, whose stored bytes start at ``p``. */
static int read_page(Column *col, const Page *page, const uint8_t *p, const Segment *segment, Unpacker *unpacker) {
    const uint8_t *body = p + page->level_bytes;
    int64_t stored = page->stored - page->level_bytes, size = page->size - page->level_bytes;
    if (stored < 0 || size < 0 || (page->level_bytes && page->kind != DATA_PAGE_V2)) return 0;
    if (segment->codec && page->is_packed && stored) {
        int done = segment->codec == SNAPPY                ? unpack_here(unpacker, body, stored, size)
                   : segment->codec == ZSTD && zstd.unpack ? unpack_zstd(unpacker, body, stored, size)
                                                           : unpack_outside(unpacker, segment->unpack, body, stored, size);
        if (!done) return 0;
        body = unpacker->page.at;
    } else if (size != stored) {
        return 0;
    }
    return unpacked_page(col, page, p, body, size);
}

/* Whether none of the next rows is wanted and kept: their page need not be unpacked. */
static int keeps_none(const Column *col, int64_t rows) {
    int64_t from = col->row < col->start ? col->start : col->row;
    int64_t to = col->row + rows < col->stop ? col->row + rows : col->stop;
    return from >= to || (col->mask && !memchr(col->mask + (from - col->start), 1, (size_t)(to - from)));
}

/* The pages of one chunk of the column that have wanted rows. */
static int read_segment(Column *col, const Segment *segment, Unpacker *unpacker) {
    Cursor c = {segment->p, segment->end};
    if (segment->values > INT64_MAX - col->row) return 0;
    int64_t stop = col->row + segment->values;
    col->dictionary = NULL;
    col->dictionary_size = 0;
    while (col->row < stop && col->row < col->stop) {
        Page page;
        if (!page_header(&c, &page)) return 0;
        if (page.kind == DATA_PAGE || page.kind == DATA_PAGE_V2) {
            if (page.values > stop - col->row || (page.kind == DATA_PAGE_V2 && page.rows != page.values)) return 0;
            if (!page.values) return 0; /* nothing that a writer does, and it would not end */
        } else if (page.kind != DICTIONARY_PAGE || col->dictionary) {
            return 0;
        }
        if (page.kind != DICTIONARY_PAGE && keeps_none(col, page.values)) {
            col->row += page.values;
        } else if (page.kind == DICTIONARY_PAGE && col->truth) {
            if (page.values != col->truth_size) return 0;
            col->dictionary = (uint8_t *)col->truth; /* it is only read */
            col->dictionary_size = col->truth_size;
        } else if (!read_page(col, &page, c.p, segment, unpacker)) {
            return 0;
        }
        c.p += page.stored;
    }
    return 1;
}

/* The chunks as segments. Their buffers are held until ``released``. */
static Segment *segments_of(PyObject *chunks, Py_ssize_t *count) {
    Py_ssize_t all = PyList_Size(chunks);
    Segment *segments = calloc((size_t)all + 1, sizeof(Segment));
    for (Py_ssize_t at = 0; segments && at < all; at++) {
        Segment *segment = segments + at;
        PyObject *buffer;
        Py_ssize_t start, length;
        long long values;
        if (!PyArg_ParseTuple(PyList_GetItem(chunks, at), "OnnLiO", &buffer, &start, &length, &values, &segment->codec,
                              &segment->unpack) ||
            PyObject_GetBuffer(buffer, &segment->view, PyBUF_SIMPLE))
            return segments;
        *count = at + 1;
        if (start < 0 || length < 0 || values < 0 || start > segment->view.len || length > segment->view.len - start)
            return segments;
        segment->p = (const uint8_t *)segment->view.buf + start;
        segment->end = segment->p + length;
        segment->values = values;
    }
    return segments;
}

static int read_segments(Column *col, const Segment *segments, Py_ssize_t count) {
    Unpacker unpacker = {0};
    int done = 1;
    for (Py_ssize_t at = 0; done && at < count; at++) {
        done = segments[at].p && read_segment(col, segments + at, &unpacker);
    }
    if (unpacker.context) zstd.destroy(unpacker.context);
    free(unpacker.page.at);
    return done && (col->row == col->stop || (col->row > col->stop && count == 1));
}

static int read_chunks(Column *col, PyObject *chunks) {
    Py_ssize_t count = 0;
    int done = 0;
    Segment *segments = segments_of(chunks, &count);
    if (segments && count == PyList_Size(chunks)) {
        if (col->stop - col->start < FEW) { /* not worth giving back the interpreter's lock */
            done = read_segments(col, segments, count);
        } else {
            Py_BEGIN_ALLOW_THREADS;
            done = read_segments(col, segments, count);
            Py_END_ALLOW_THREADS;
        }
    }
    for (Py_ssize_t at = 0; at < count; at++) PyBuffer_Release(&segments[at].view);
    free(segments);
    return done;
}

static PyObject *use_zstd(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long create, destroy, unpack;
    if (!PyArg_ParseTuple(args, "KKK", &create, &destroy, &unpack)) return NULL;
    zstd.create = (void *(*)(void))(uintptr_t)create;
    zstd.destroy = (size_t(*)(void *))(uintptr_t)destroy;
    zstd.unpack = (size_t(*)(void *, void *, size_t, const void *, size_t))(uintptr_t)unpack;
    Py_RETURN_NONE;
}

static int is_odd(const Column *col) {
    if (col->stored < 0 || col->stored > 16) return 1;
    if (col->width ? !col->stored && col->type != BOOLEAN : col->type != BYTE_ARRAY) return 1;
    return (col->stored != col->width || col->type == FIXED) && col->width != 16 && col->width && col->type != BOOLEAN;
}

/* The values of the dictionary of one chunk: how many, their bytes, and where each ends if they have any length. */
static PyObject *dictionary(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *chunks, *result = NULL;
    Column col = {0};
    Py_ssize_t count = 0;
    Unpacker unpacker = {0};
    if (!PyArg_ParseTuple(args, "O!iii", &PyList_Type, &chunks, &col.type, &col.stored, &col.width)) return NULL;
    if (is_odd(&col) || col.type == BOOLEAN || PyList_Size(chunks) != 1) goto odd;
    Segment *segments = segments_of(chunks, &count);
    int done = 0;
    if (segments && count == 1 && segments->p) {
        Cursor c = {segments->p, segments->end};
        Page page;
        done = page_header(&c, &page) && page.kind == DICTIONARY_PAGE &&
               read_page(&col, &page, c.p, segments, &unpacker);
    }
    if (count) PyBuffer_Release(&segments->view);
    free(segments);
    if (unpacker.context) zstd.destroy(unpacker.context);
    free(unpacker.page.at);
    if (done) {
        int64_t size = col.dictionary_size;
        int64_t bytes = col.width ? size * col.width : col.ends[size];
        result = Py_BuildValue("(Ly#y#)", (long long)size, (const char *)col.dictionary, (Py_ssize_t)bytes,
                               (const char *)col.ends, (Py_ssize_t)(col.width ? 0 : (size + 1) * 4));
    }
odd:
    if (!result && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a chunk without a dictionary");
    freed(&col);
    return result;
}

static PyObject *decode(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *chunks, *mask_object, *values_object, *valid_object, *truth_object, *result = NULL;
    Column col = {0};
    Py_buffer mask = {0}, values = {0}, valid = {0}, truth = {0};
    long long first, rows, room;
    if (!PyArg_ParseTuple(args, "O!iiiiLLLOOOOO", &PyList_Type, &chunks, &col.type, &col.optional, &col.stored,
                          &col.width, &first, &rows, &room, &mask_object, &values_object, &valid_object, &col.allocate,
                          &truth_object))
        return NULL;
    if (first < 0 || rows < 0 || rows > INT64_MAX - first || room < 0 || room > rows || is_odd(&col)) goto odd;
    col.start = first;
    col.stop = first + rows;
    col.room = room;
    if (truth_object != Py_None) {
        if (col.type == BOOLEAN || PyList_Size(chunks) != 1) goto odd;
        if (PyObject_GetBuffer(truth_object, &truth, PyBUF_SIMPLE)) goto end;
        col.truth = truth.buf;
        col.truth_size = truth.len;
        col.width = 1;
    }
    if (PyObject_GetBuffer(values_object, &values, PyBUF_WRITABLE)) goto end;
    if (PyObject_GetBuffer(valid_object, &valid, PyBUF_WRITABLE)) goto end;
    if (mask_object != Py_None) {
        if (PyObject_GetBuffer(mask_object, &mask, PyBUF_SIMPLE)) goto end;
        if (mask.len != rows) goto odd;
        col.mask = mask.buf;
    }
    /* One value more: the loops with a mask write before they know whether the value stays. */
    if (values.len / (col.width ? col.width : 4) < room + 1 || valid.len < room / 8 + 1) goto odd;
    col.values = values.buf;
    col.valid = valid.buf;
    memset(col.valid, 0xFF, (size_t)valid.len);
    if (!col.width) {
        *(int32_t *)col.values = 0;
        if (!grown(&col, (size_t)room * 8 + 64)) goto odd;
    }
    if (!read_chunks(&col, chunks) || col.out != room) goto odd;
    if (col.width) {
        result = Py_BuildValue("(LOn)", (long long)col.nulls, Py_None, (Py_ssize_t)0);
    } else {
        result = Py_BuildValue("(LOn)", (long long)col.nulls, col.data_object, (Py_ssize_t)col.data_used);
    }
    goto end;
odd:
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a page that only pyarrow can read");
end:
    if (mask.obj) PyBuffer_Release(&mask);
    if (values.obj) PyBuffer_Release(&values);
    if (valid.obj) PyBuffer_Release(&valid);
    if (truth.obj) PyBuffer_Release(&truth);
    freed(&col);
    return result;
}

static PyMethodDef METHODS[] = {
    {"schema_end", schema_end, METH_VARARGS, "Where in a footer the schema ends. None if it is not where it should be."},
    {"row_groups", row_groups, METH_VARARGS, "The row groups of a footer. None if pyarrow should look at it."},
    {"statistics", statistics, METH_VARARGS, "The statistics of a footer, as stored. None if they make no sense."},
    {"decode", decode, METH_VARARGS, "Decode the chunks of one column into buffers: the nulls, and texts."},
    {"dictionary", dictionary, METH_VARARGS, "The values of the dictionary of one chunk."},
    {"use_zstd", use_zstd, METH_VARARGS, "Unpack with these three functions of libzstd, by their addresses."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_parquet", "Parquet columns into Arrow buffers.", -1,
                                    METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__parquet(void) { return PyModule_Create(&MODULE); }
