/* Many blocks of a container in one call without the GIL, for _shred_object.h: find each block, inflate it, walk its
 * rows. It stops before the first block that is not plainly right (a size or sync marker that does not fit, a stream
 * that does not inflate, too many bytes). container.py then goes on from there, and says what is wrong. */

#include "_shred_inflate.h"

enum { STORED, DEFLATED };

typedef struct {
    int codec;
    int64_t block_limit, container_limit; /* bytes of one block, and of all after inflation */
    int64_t growth_from, growth;          /* the buffers may have growth_from + growth * fed bytes */
    int64_t number, rows, inflated, fed;  /* blocks, rows and bytes so far; fed counts other containers too */
    int64_t left;                         /* bytes after the rows of the last block */
    const uint8_t *sync;
} Blocks;

/* The next block: 1 if it is plainly right. `w->p` is moved only then. */
static int next_block(Shredder *w, Blocks *b, const uint8_t *end, const uint8_t **data, int64_t *size, int64_t *rows) {
    const uint8_t *start = w->p;
    w->end = end;
    if (!read_long(w, rows) && !read_long(w, size) && *rows >= 0 && *size >= 0 && *size <= b->block_limit &&
        *size <= end - w->p && end - w->p - *size >= 16 && !memcmp(w->p + *size, b->sync, 16)) {
        const uint8_t *packed = w->p;
        int64_t limit = b->container_limit - b->inflated < b->block_limit ? b->container_limit - b->inflated : b->block_limit;
        const uint8_t *after = packed + *size + 16;
        *data = packed;
        if (b->codec == DEFLATED) {
            if (limit >= 0 && inflate_raw(packed, (size_t)*size, &w->plain, (size_t)limit)) {
                *data = w->plain.at ? w->plain.at : packed;
                *size = (int64_t)w->plain.used;
                w->p = after;
                return 1;
            }
        } else if (*size <= limit) {
            w->p = after;
            return 1;
        }
    }
    w->p = start;
    return 0;
}

/* The rows of a block. The position in the container is kept in `after` meanwhile. */
static int walk_block(Shredder *w, Blocks *b, const uint8_t *data, int64_t size, int64_t rows) {
    int err = OK;
    b->fed += size;
    b->inflated += size;
    int64_t soft = b->fed > (INT64_MAX - b->growth_from) / b->growth ? INT64_MAX : b->growth_from + b->growth * b->fed;
    w->p = data;
    w->end = data + size;
    int64_t done = 0;
    while (done < rows && !err) {
        const uint8_t *start = w->p;
        err = keep(w, 0);
        done++;
        if (!err && w->p == start && --w->empty < 0) err = EMPTY;
        if (w->bytes > soft) break;
    }
    b->left = w->end - w->p;
    b->rows += rows;
    if (err) return err;
    return done < rows ? GROWN : b->left ? LEFT : OK;
}

static int walk_blocks(Shredder *w, Blocks *b, const uint8_t *at, const uint8_t *end, const uint8_t **stopped) {
    const uint8_t *data;
    int64_t size, rows;
    int err = OK;
    w->p = at;
    while (!err && w->p < end && next_block(w, b, end, &data, &size, &rows)) {
        const uint8_t *after = w->p;
        err = walk_block(w, b, data, size, rows);
        w->p = after;
        if (!err) b->number++;
    }
    *stopped = w->p;
    w->p = w->end = NULL;
    return err;
}

static PyObject *Shredder_feed_blocks(PyObject *self, PyObject *args) {
    Shredder *w = (Shredder *)self;
    PyObject *data;
    Py_buffer view;
    Py_ssize_t at, sync_size;
    const char *sync;
    long long block_limit, container_limit, growth_from, growth, fed;
    int deflated;
    if (!PyArg_ParseTuple(args, "Ony#p(LL)(LLL)", &data, &at, &sync, &sync_size, &deflated, &block_limit,
                          &container_limit, &growth_from, &growth, &fed) || enter(w)) return NULL;
    if (sync_size != 16 || block_limit < 0 || container_limit < 0 || growth_from < 0 || growth < 1 || fed < 0) {
        PyErr_SetString(PyExc_ValueError, "a sync marker has 16 bytes, and limits are not negative");
        return NULL;
    }
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    if (at < 0 || at > view.len) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "the position is outside the container");
        return NULL;
    }
    Blocks b = {.codec = deflated ? DEFLATED : STORED, .block_limit = block_limit, .container_limit = container_limit,
                .growth_from = growth_from, .growth = growth, .fed = fed, .sync = (const uint8_t *)sync};
    const uint8_t *start = view.buf, *stopped = start;
    int err;
    w->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    err = walk_blocks(w, &b, start + at, start + view.len, &stopped);
    Py_END_ALLOW_THREADS
    w->busy = 0;
    at = stopped - start;
    PyBuffer_Release(&view);
    if (err) {
        give_up(w);
        if (err == MEMORY) return PyErr_NoMemory();
        if (err == LEFT) return PyErr_Format(PyExc_ValueError, "block %lld has %lld bytes left after its rows", (long long)b.number, (long long)b.left);
        return PyErr_Format(PyExc_ValueError, "%s (block %lld)", REASONS[err], (long long)b.number);
    }
    return Py_BuildValue("(nLLLL)", at, (long long)b.number, (long long)b.rows, (long long)b.inflated, (long long)w->bytes);
}
