/* The walk over Avro rows, shredding them into Arrow buffers.
 *
 * A program (see program.py) is a tree of nodes in pre-order; a node with a slot is kept, one without is
 * walked over. The program is checked once when it is loaded, so that no program, and no row, can make
 * the walk leave its memory:
 *   - every read of a row is checked against the end of its block;
 *   - every append is counted against a limit that keeps 32-bit offsets from overflowing;
 *   - recursion goes as deep as the program, whose depth is bounded;
 *   - items that take no bytes are counted, so that a count alone cannot keep the walk busy.
 * The walk runs without the GIL. _shred_py.py is the same walk in Python; tests hold them equal. */

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NUL, BOOL, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, RECORD, ARRAY, MAP, UNION, PICK, OPS };
enum { PLAIN = -1, NULL_FIRST = 0, NULL_LAST = 1, SINGLE = 2 };
enum { OK, CUT, NUMBER, RANGE, TRUTH, LENGTH, TEXT, BRANCH, SYMBOL, COUNT, SIZE, EMPTY, FULL, MEMORY, GROWN, LEFT };

static const char *const REASONS[] = {
    "", "a row passes the end of its block", "a number is longer than 10 bytes", "an int is longer than 32 bits",
    "a boolean is neither 0 nor 1", "a length is negative", "a string is not UTF-8",
    "a union has no such branch", "an enum has no such symbol", "an array's count is impossible",
    "an array's size is not what it says", "too many items take no bytes", "it decodes to too many bytes", "",
    "it decodes to far more bytes than it has", ""};

#define FIELDS 7 /* op, union, slot, nullable, arg, key, next */
#define MAX_DEPTH 200
#define MAX_EMPTY (1 << 20)
#define MAX_BYTES INT32_MAX

typedef struct {
    int op, uni, slot, nullable, next, scratch;
    int64_t arg, key;
} Node;

typedef struct {
    uint8_t *at;
    size_t used, room;
} Buf;

typedef struct {
    int64_t length, nulls;
    Buf valid, main, data; /* main: values, or offsets into data or the child */
} Slot;

typedef struct {
    PyObject_HEAD
    Node *nodes;
    Slot *slots;
    const uint8_t **scratch;
    int n_nodes, n_slots, n_scratch, busy;
    int64_t empty, bytes, limit;
    const uint8_t *p, *end;
    Buf plain; /* an inflated block */
} Shredder;

/* ---- appending ---- */

static int grow(Shredder *w, Buf *buf, size_t more) {
    if ((int64_t)more > w->limit - w->bytes) return FULL;
    w->bytes += (int64_t)more;
    if (more <= buf->room - buf->used) return OK;
    size_t room = buf->room ? buf->room * 2 : 64; /* no overflow: used + more is below MAX_BYTES */
    if (room < buf->used + more) room = buf->used + more;
    uint8_t *at = realloc(buf->at, room);
    if (!at) return MEMORY;
    buf->at = at;
    buf->room = room;
    return OK;
}

static inline int append(Shredder *w, Buf *buf, const void *from, size_t size) {
    int err = grow(w, buf, size);
    if (err) return err;
    if (size) memcpy(buf->at + buf->used, from, size);
    buf->used += size;
    return OK;
}

static int append_zeros(Shredder *w, Buf *buf, size_t size) {
    int err = grow(w, buf, size);
    if (err) return err;
    if (size) memset(buf->at + buf->used, 0, size);
    buf->used += size;
    return OK;
}

static inline int append_bit(Shredder *w, Buf *buf, int64_t index, int bit) {
    if (!(index & 7)) {
        uint8_t zero = 0;
        int err = append(w, buf, &zero, 1);
        if (err) return err;
    }
    if (bit) buf->at[index >> 3] |= (uint8_t)(1u << (index & 7));
    return OK;
}

static inline int append_offset(Shredder *w, Slot *slot, int64_t offset) {
    if (offset > INT32_MAX) return FULL;
    int32_t narrow = (int32_t)offset;
    return append(w, &slot->main, &narrow, 4);
}

/* One more value in the slot; its bits and bytes must have been appended before. */
static inline int close_value(Shredder *w, const Node *node, Slot *slot, int valid) {
    if (slot->length >= INT32_MAX) return FULL;
    if (node->nullable) {
        int err = append_bit(w, &slot->valid, slot->length, valid);
        if (err) return err;
    }
    slot->nulls += !valid;
    slot->length++;
    return OK;
}

/* ---- reading ---- */

static inline int read_long(Shredder *w, int64_t *out) {
    const uint8_t *p = w->p, *end = w->end;
    if (p < end && *p < 0x80) {
        *out = (int64_t)(*p >> 1) ^ -(int64_t)(*p & 1);
        w->p = p + 1;
        return OK;
    }
    uint64_t value = 0; /* bits past the 64th fall off, as in Java: real tables hold such snapshot ids */
    for (int shift = 0; shift < 70; shift += 7) {
        if (p >= end) return CUT;
        uint8_t byte = *p++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            w->p = p;
            return OK;
        }
    }
    return NUMBER;
}

static inline int take(Shredder *w, int64_t size, const uint8_t **out) {
    if (size < 0) return LENGTH;
    if (size > w->end - w->p) return CUT;
    *out = w->p;
    w->p += size;
    return OK;
}

static inline int read_bytes(Shredder *w, const uint8_t **out, int64_t *size) {
    int err = read_long(w, size);
    return err ? err : take(w, *size, out);
}

static int is_utf8(const uint8_t *p, int64_t size) {
    const uint8_t *end = p + size;
    while (p < end) {
        uint64_t word;
        if (end - p >= 8 && (memcpy(&word, p, 8), !(word & UINT64_C(0x8080808080808080)))) {
            p += 8;
            continue;
        }
        uint8_t c = *p;
        if (c < 0x80) {
            p++;
            continue;
        }
        int more = c >= 0xC2 && c <= 0xDF ? 1 : (c & 0xF0) == 0xE0 ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : 0;
        if (!more || end - p <= more) return 0;
        uint8_t low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80; /* no overlong form */
        uint8_t high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF; /* no surrogate, nothing past U+10FFFF */
        if (p[1] < low || p[1] > high) return 0;
        for (int i = 2; i <= more; i++)
            if ((p[i] & 0xC0) != 0x80) return 0;
        p += more + 1;
    }
    return 1;
}

/* The branch taken: 1 for the value, 0 for null. */
static inline int read_branch(Shredder *w, const Node *node, int *valid) {
    *valid = 1;
    if (node->uni == PLAIN) return OK;
    int64_t branch;
    int err = read_long(w, &branch);
    if (err) return err;
    if (branch < 0 || branch > (node->uni == SINGLE ? 0 : 1)) return BRANCH;
    *valid = node->uni == SINGLE || branch != node->uni;
    return OK;
}

/* The next run of an array's or map's items: count 0 ends it; stop is where it says it ends, or NULL. */
static inline int read_run(Shredder *w, int64_t *count, const uint8_t **stop) {
    int err = read_long(w, count);
    *stop = NULL;
    if (err || *count >= 0) return err;
    if (*count == INT64_MIN) return COUNT;
    *count = -*count;
    int64_t size;
    if ((err = read_long(w, &size))) return err;
    if (size < 0) return LENGTH;
    if (size > w->end - w->p) return CUT;
    *stop = w->p + size;
    return OK;
}

/* ---- walking over ---- */

static int skip(Shredder *w, int n);

/* The same for one value, without a call if it is a plain number, text or bytes: what statistics are made of. */
static inline int skip_value(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    const uint8_t *bytes;
    int64_t number;
    if (node->uni != PLAIN) return skip(w, n);
    switch (node->op) {
    case INT:
    case LONG: return read_long(w, &number);
    case BYTES:
    case STRING: return read_bytes(w, &bytes, &number);
    default: return skip(w, n);
    }
}

/* An item of an array or map. The fields of a plain record are skipped here, which saves a call for each. */
static inline int skip_item(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    if (node->op != RECORD || node->uni != PLAIN) return skip_value(w, n);
    int err = OK;
    for (int c = n + 1; !err && c < node->next; c = w->nodes[c].next) err = skip_value(w, c);
    return err;
}

static int skip_runs(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    for (;;) {
        int64_t count;
        const uint8_t *stop;
        int err = read_run(w, &count, &stop);
        if (err || !count) return err;
        if (stop) {
            w->p = stop;
            continue;
        }
        for (; count; count--) {
            const uint8_t *start = w->p;
            for (int c = n + 1; c < node->next; c = w->nodes[c].next)
                if ((err = skip_item(w, c))) return err;
            if (w->p == start && --w->empty < 0) return EMPTY;
        }
    }
}

static int skip(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    const uint8_t *bytes;
    int64_t number;
    int valid, err = read_branch(w, node, &valid);
    if (err || !valid) return err;
    switch (node->op) {
    case NUL: return OK;
    case BOOL: return take(w, 1, &bytes);
    case INT:
    case LONG:
    case ENUM: return read_long(w, &number);
    case FLOAT: return take(w, 4, &bytes);
    case DOUBLE: return take(w, 8, &bytes);
    case BYTES:
    case STRING: return read_bytes(w, &bytes, &number);
    case FIXED: return take(w, node->arg, &bytes);
    case RECORD:
        for (int c = n + 1; c < node->next; c = w->nodes[c].next)
            if ((err = skip(w, c))) return err;
        return OK;
    case UNION: {
        if ((err = read_long(w, &number))) return err;
        if (number < 0) return BRANCH;
        int c = n + 1;
        for (; c < node->next && number; number--) c = w->nodes[c].next;
        return c < node->next ? skip(w, c) : BRANCH;
    }
    default: return skip_runs(w, n); /* ARRAY, MAP */
    }
}

/* ---- keeping ---- */

static int keep(Shredder *w, int n);

static int keep_null(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    Slot *slot = &w->slots[node->slot];
    int err = OK;
    switch (node->op) {
    case NUL: break;
    case BOOL: err = append_bit(w, &slot->main, slot->length, 0); break;
    case INT:
    case ENUM:
    case FLOAT: err = append_zeros(w, &slot->main, 4); break;
    case LONG:
    case DOUBLE: err = append_zeros(w, &slot->main, 8); break;
    case FIXED: err = append_zeros(w, &slot->main, (size_t)node->arg); break;
    case BYTES:
    case STRING: err = append_offset(w, slot, (int64_t)slot->data.used); break;
    case ARRAY:
    case MAP: err = append_offset(w, slot, w->slots[w->nodes[n + 1].slot].length); break;
    default: /* RECORD, PICK */
        for (int c = n + 1; !err && c < node->next; c = w->nodes[c].next)
            if (w->nodes[c].slot >= 0) err = keep_null(w, c);
    }
    return err ? err : close_value(w, node, slot, 0);
}

static int keep_runs(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    for (;;) {
        int64_t count;
        const uint8_t *stop;
        int err = read_run(w, &count, &stop);
        if (err) return err;
        if (!count) return append_offset(w, &w->slots[node->slot], w->slots[w->nodes[n + 1].slot].length);
        for (; count; count--) {
            const uint8_t *start = w->p;
            for (int c = n + 1; c < node->next; c = w->nodes[c].next)
                if ((err = keep(w, c))) return err;
            if (w->p == start && --w->empty < 0) return EMPTY;
        }
        if (stop && w->p != stop) return SIZE;
    }
}

/* Children: the key, the value walked over, then the value kept once for each key, ascending. The
 * place of each wanted value is noted first and read afterwards, so that the last of a key counts. */
static int keep_pick(Shredder *w, int n) {
    const Node *node = &w->nodes[n], *nodes = w->nodes;
    const int value = nodes[n + 1].next, first = nodes[value].next;
    const uint8_t **found = w->scratch + node->scratch;
    const int wanted = (int)node->arg;
    int err;
    memset(found, 0, sizeof(*found) * (size_t)wanted);
    for (;;) {
        int64_t count, key;
        const uint8_t *stop;
        if ((err = read_run(w, &count, &stop))) return err;
        if (!count) break;
        for (; count; count--) {
            if ((err = read_long(w, &key))) return err;
            if (nodes[n + 1].op == INT && (key < INT32_MIN || key > INT32_MAX)) return RANGE;
            int low = 0, high = wanted; /* the kept values are one subtree repeated, so evenly spaced */
            const int stride = wanted ? nodes[first].next - first : 0;
            while (low < high) {
                int middle = (low + high) / 2;
                if (nodes[first + middle * stride].key < key) low = middle + 1;
                else high = middle;
            }
            if (low < wanted && nodes[first + low * stride].key == key) found[low] = w->p;
            if ((err = skip_value(w, value))) return err;
        }
        if (stop && w->p != stop) return SIZE;
    }
    const uint8_t *after = w->p;
    for (int c = first, i = 0; c < node->next; c = nodes[c].next, i++) {
        w->p = found[i];
        if ((err = found[i] ? keep(w, c) : keep_null(w, c))) return err;
    }
    w->p = after;
    return OK;
}

static int keep(Shredder *w, int n) {
    const Node *node = &w->nodes[n];
    Slot *slot = &w->slots[node->slot];
    const uint8_t *bytes;
    int64_t number;
    int valid, err = read_branch(w, node, &valid);
    if (err) return err;
    if (!valid) return keep_null(w, n);
    switch (node->op) {
    case NUL: return close_value(w, node, slot, 0);
    case BOOL:
        if ((err = take(w, 1, &bytes))) return err;
        if (*bytes > 1) return TRUTH;
        err = append_bit(w, &slot->main, slot->length, *bytes);
        break;
    case INT:
    case ENUM: {
        if ((err = read_long(w, &number))) return err;
        if (node->op == ENUM && (number < 0 || number >= node->arg)) return SYMBOL;
        if (number < INT32_MIN || number > INT32_MAX) return RANGE;
        int32_t narrow = (int32_t)number;
        err = append(w, &slot->main, &narrow, 4);
        break;
    }
    case LONG:
        if ((err = read_long(w, &number))) return err;
        err = append(w, &slot->main, &number, 8);
        break;
    case FLOAT:
    case DOUBLE:
    case FIXED:
        number = node->op == FLOAT ? 4 : node->op == DOUBLE ? 8 : node->arg;
        if ((err = take(w, number, &bytes))) return err;
        err = append(w, &slot->main, bytes, (size_t)number);
        break;
    case BYTES:
    case STRING:
        if ((err = read_bytes(w, &bytes, &number))) return err;
        if (node->op == STRING && !is_utf8(bytes, number)) return TEXT;
        if ((err = append(w, &slot->data, bytes, (size_t)number))) return err;
        err = append_offset(w, slot, (int64_t)slot->data.used);
        break;
    case RECORD:
        for (int c = n + 1; !err && c < node->next; c = w->nodes[c].next)
            err = w->nodes[c].slot >= 0 ? keep(w, c) : skip(w, c);
        break;
    case PICK: err = keep_pick(w, n); break;
    default: err = keep_runs(w, n); /* ARRAY, MAP */
    }
    return err ? err : close_value(w, node, slot, 1);
}

#include "_shred_object.h"
