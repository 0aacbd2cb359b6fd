/* The walk over OTLP requests, shredding them into Arrow buffers.
 *
 * A program (see program.py) is a tree of nodes in pre-order, one for each field of the protocol. A LEVEL is a message
 * whose occurrences are rows: requests, resources, scopes, spans and so on; each row knows its parent's. The fields
 * below a level are columns of its row. A level is scanned twice: first for its own columns, since fields come in any
 * order, then for the levels below, so that what is wrong with one row is known before anything below it is kept.
 *
 * A level that cannot be kept is taken back and noted with its place; the walk goes on behind it. No input can make the
 * walk leave its memory or grow without bound:
 *   - the program is checked once when it is loaded;
 *   - every read is checked against the end of its message;
 *   - every append is counted against a limit that keeps 32-bit offsets from overflowing;
 *   - recursion goes as deep as the program, values as deep as MAX_NESTED, JSON as deep as MAX_JSON.
 * The GIL is held: doubles become text as Python writes them. _walk_py.py is the same walk in Python. */

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL, MESSAGE, LIST, FIXED64, SFIXED64, DOUBLE, FIXED32, UINT32, INT32, SINT32, BOOL, STRING, ID, ANY,
       ATTRIBUTES, FIXED64S, UINT64S, DOUBLES, STRINGS, OPS };
/* As REASONS in walk.py. */
enum { OK, CUT, NUMBER, WIRE, TEXT, RANGE, LENGTH, INDEX, DEEP, SYNTAX, VALUE, MANY, FULL, LEVELS, MEMORY };

#define MAX_DEPTH 16 /* of levels and messages in a program */
#define MAX_NUMBER 32
#define MAX_NESTED 64
#define MAX_JSON 512
#define MAX_BAD 10000
#define MAX_BYTES INT32_MAX
#define FEW 12 /* attributes compared each with each; more are sorted */

typedef struct {
    uint8_t *at;
    size_t used, room;
} Buf;

typedef struct {
    int64_t length, items; /* items: what a list's offsets count */
    Buf valid, main, data; /* main: values, or offsets into data or the items */
} Slot;

typedef struct {
    const uint8_t *key, *value; /* value NULL: none was sent */
    int64_t key_size, size;
} Entry;

typedef struct {
    Entry *at;
    size_t used, room;
} Entries;

typedef struct {
    const uint8_t *at; /* text, bytes or a message */
    int64_t value;     /* a number, the bits of a double, or the size of what is at */
    int seen;
} Cell;

typedef struct {
    int op, number, slot, arg, next, oneof, leaf;
    int kids[MAX_NUMBER]; /* by field number; 0: none */
    char *name, *names;   /* in JSON; of enum members, each "NAME=1\n" */
    size_t name_size;
    int64_t before; /* rows of a level before the request at hand */
} Node;

typedef struct {
    int node;
    const uint8_t *start, *end;
} Place;

typedef struct {
    PyObject_HEAD
    Node *nodes;
    Slot *slots;
    Cell *cells;
    Entries *found, nested; /* found: by node */
    int n_nodes, n_slots, strict, depth, broken;
    int64_t bytes, limit, spread, records, unknown, repeated, spread_before, unknown_before, repeated_before;
    Place chain[MAX_DEPTH];
    Buf bad, out, text; /* bad: int64s: code, depth, then node, start and end of each level down to it */
    int64_t n_bad;
    const uint8_t *base;
} Walker;

/* ---- appending ---- */

static int grow(Walker *w, Buf *buf, size_t more) {
    if (more > (size_t)(w->limit - w->bytes)) return FULL;
    w->bytes += (int64_t)more;
    if (more <= buf->room - buf->used) return OK;
    size_t room = buf->room ? buf->room * 2 : 256; /* no overflow: used + more is below MAX_BYTES */
    if (room < buf->used + more) room = buf->used + more;
    uint8_t *at = realloc(buf->at, room);
    if (!at) return MEMORY;
    buf->at = at;
    buf->room = room;
    return OK;
}

static inline int append(Walker *w, Buf *buf, const void *from, size_t size) {
    int err = grow(w, buf, size);
    if (err) return err;
    if (size) memcpy(buf->at + buf->used, from, size);
    buf->used += size;
    return OK;
}

static inline int append_byte(Walker *w, Buf *buf, uint8_t byte) { return append(w, buf, &byte, 1); }

static inline int append_bit(Walker *w, Buf *buf, int64_t index, int bit) {
    if (!(index & 7)) {
        int err = append_byte(w, buf, 0);
        if (err) return err;
    }
    if (bit) buf->at[index >> 3] |= (uint8_t)(1u << (index & 7));
    return OK;
}

/* One more value in the slot; its bytes must have been appended before. */
static inline int close_value(Walker *w, Slot *slot, int valid) {
    if (slot->length >= INT32_MAX) return FULL;
    int err = append_bit(w, &slot->valid, slot->length, valid);
    if (!err) slot->length++;
    return err;
}

static inline int close_offset(Walker *w, Slot *slot, int64_t offset, int valid) {
    int32_t narrow = (int32_t)offset; /* fits: the limit is below it */
    int err = append(w, &slot->main, &narrow, 4);
    return err ? err : close_value(w, slot, valid);
}

static inline int close_text(Walker *w, Slot *slot, const void *from, size_t size, int valid) {
    int err = append(w, &slot->data, from, valid ? size : 0);
    return err ? err : close_offset(w, slot, (int64_t)slot->data.used, valid);
}

/* ---- taking back ---- */

static int32_t offset_at(const Slot *slot, int64_t row) {
    int32_t offset;
    memcpy(&offset, slot->main.at + row * 4, 4);
    return offset;
}

static void cut_slot(Slot *slot, int64_t length, size_t main) {
    slot->length = length;
    slot->main.used = main;
    slot->valid.used = (size_t)(length + 7) / 8;
    if (length & 7) slot->valid.at[length >> 3] &= (uint8_t)((1u << (length & 7)) - 1);
}

static void cut_text(Slot *slot, int64_t length) {
    slot->data.used = (size_t)offset_at(slot, length);
    cut_slot(slot, length, (size_t)(length + 1) * 4);
}

static void cut_row(Walker *w, int n, int64_t rows);

static void cut_node(Walker *w, int n, int64_t rows) {
    const Node *node = &w->nodes[n];
    Slot *slot = node->op == MESSAGE ? NULL : &w->slots[node->slot];
    int64_t items;
    switch (node->op) {
    case LEVEL: return;
    case MESSAGE: cut_row(w, n, rows); return;
    case LIST:
        slot->items = offset_at(slot, rows);
        cut_row(w, n, slot->items);
        cut_slot(slot, rows, (size_t)(rows + 1) * 4);
        return;
    case INT32:
    case SINT32: cut_slot(slot, rows, (size_t)rows * 4); return;
    case BOOL:
        cut_slot(slot, rows, (size_t)(rows + 7) / 8);
        if (rows & 7) slot->main.at[rows >> 3] &= (uint8_t)((1u << (rows & 7)) - 1);
        return;
    case STRING:
    case ID: cut_text(slot, rows); return;
    case ANY:
        cut_text(slot, rows);
        cut_text(slot + 1, rows);
        return;
    case ATTRIBUTES:
        for (int half = 0; half < 6; half += 3) {
            items = offset_at(slot + half, rows);
            cut_text(slot + half + 1, items);
            cut_text(slot + half + 2, items);
            cut_slot(slot + half, rows, (size_t)(rows + 1) * 4);
        }
        return;
    case STRINGS:
        cut_text(slot + 1, offset_at(slot, rows));
        cut_slot(slot, rows, (size_t)(rows + 1) * 4);
        return;
    case FIXED64S:
    case UINT64S:
    case DOUBLES:
        items = offset_at(slot, rows);
        cut_slot(slot + 1, items, (size_t)items * 8);
        cut_slot(slot, rows, (size_t)(rows + 1) * 4);
        return;
    default: cut_slot(slot, rows, (size_t)rows * 8);
    }
}

/* The columns of a level, message or list keep that many rows; a row half written goes. */
static void cut_row(Walker *w, int n, int64_t rows) {
    for (int c = n + 1; c < w->nodes[n].next; c = w->nodes[c].next) cut_node(w, c, rows);
}

static void cut_level(Walker *w, int n, int64_t rows) {
    cut_row(w, n, rows);
    cut_slot(&w->slots[w->nodes[n].slot], rows, (size_t)rows * 4);
}

/* Everything of the request at hand. */
static void undo(Walker *w) {
    for (int n = 0; n < w->n_nodes; n++)
        if (w->nodes[n].op == LEVEL) cut_level(w, n, w->nodes[n].before);
    w->bytes = 0;
    for (int i = 0; i < w->n_slots; i++)
        w->bytes += (int64_t)(w->slots[i].valid.used + w->slots[i].main.used + w->slots[i].data.used);
    w->spread = w->spread_before;
    w->bytes += w->spread;
    w->records = 0;
    w->unknown = w->unknown_before;
    w->repeated = w->repeated_before;
}

/* ---- reading ---- */

typedef struct {
    int number, wire;
    uint64_t value;    /* of a varint or fixed number; else the size */
    const uint8_t *at; /* of what has a size */
} Field;

static inline int read_varint(const uint8_t **p, const uint8_t *end, uint64_t *out) {
    if (*p < end && **p < 0x80) {
        *out = *(*p)++;
        return OK;
    }
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*p >= end) return CUT;
        uint8_t byte = *(*p)++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return OK;
        }
    }
    return NUMBER;
}

static inline uint64_t little(const uint8_t *p, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static inline int read_field(const uint8_t **p, const uint8_t *end, Field *f) {
    uint64_t tag;
    int err = read_varint(p, end, &tag);
    if (err) return err;
    if (tag > UINT32_MAX || tag < 8) return WIRE;
    f->at = *p;
    f->number = (int)(tag >> 3);
    f->wire = (int)(tag & 7);
    switch (f->wire) {
    case 0: return read_varint(p, end, &f->value);
    case 1:
    case 5: {
        int size = f->wire == 1 ? 8 : 4;
        if (end - *p < size) return CUT;
        f->value = little(*p, size);
        *p += size;
        return OK;
    }
    case 2:
        if ((err = read_varint(p, end, &f->value))) return err;
        if (f->value > (uint64_t)(end - *p)) return CUT;
        f->at = *p;
        *p += f->value;
        return OK;
    default: return WIRE;
    }
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
        uint8_t low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;  /* no overlong form */
        uint8_t high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF; /* no surrogate, nothing past U+10FFFF */
        if (p[1] < low || p[1] > high) return 0;
        for (int i = 2; i <= more; i++)
            if ((p[i] & 0xC0) != 0x80) return 0;
        p += more + 1;
    }
    return 1;
}

#include "_walk_values.h"
#include "_walk_columns.h"

/* ---- levels ---- */

static int append_number(Buf *buf, int64_t number) {
    if (buf->room - buf->used < 8) {
        size_t room = buf->room ? buf->room * 2 : 512;
        uint8_t *at = realloc(buf->at, room);
        if (!at) return MEMORY;
        buf->at = at;
        buf->room = room;
    }
    memcpy(buf->at + buf->used, &number, 8);
    buf->used += 8;
    return OK;
}

/* The level at hand cannot be kept: it is noted with the levels above it. */
static int note(Walker *w, int code) {
    if (code == FULL || code == MEMORY || code == MANY) return code;
    if (w->n_bad >= MAX_BAD) return MANY;
    int err = append_number(&w->bad, code);
    if (!err) err = append_number(&w->bad, w->depth);
    for (int i = 0; i < w->depth && !err; i++) {
        const Place *place = &w->chain[i];
        if ((err = append_number(&w->bad, place->node))) break;
        if ((err = append_number(&w->bad, place->start - w->base))) break;
        err = append_number(&w->bad, place->end - w->base);
    }
    w->n_bad++;
    return err;
}

/* What stands above a record is repeated beside it in the end: counted here, lest few bytes become many. */
static int count_spread(Walker *w, int64_t above) {
    if (above > w->limit - w->bytes) return FULL;
    w->bytes += above;
    w->spread += above;
    return OK;
}

/* above: the bytes of the rows above this one. */
static int walk_level(Walker *w, int n, int64_t parent, const uint8_t *p, const uint8_t *end, int64_t above) {
    const Node *node = &w->nodes[n];
    const int64_t before = w->bytes;
    Slot *slot = &w->slots[node->slot];
    const int64_t row = slot->length;
    const int32_t narrow = (int32_t)parent;
    const int64_t unknown = w->unknown, repeated = w->repeated;
    w->chain[w->depth++] = (Place){n, p, end};
    open_row(w, n);
    int err = scan(w, n, p, end);
    if (!err) err = close_row(w, n, 1);
    if (!err) err = append(w, &slot->main, &narrow, 4);
    if (!err) err = close_value(w, slot, 1);
    if (err) {
        cut_level(w, n, row);
        w->nested.used = 0;
        w->unknown = unknown;
        w->repeated = repeated;
        err = note(w, err);
    } else if (node->leaf) {
        w->records++;
        err = count_spread(w, above);
    } else {
        Field f;
        above += w->bytes - before;
        while (p < end && !err && !(err = read_field(&p, end, &f))) {
            int c = f.number < MAX_NUMBER ? node->kids[f.number] : 0;
            if (!c || f.wire != 2 || w->nodes[c].op != LEVEL) continue;
            if (w->nodes[c].oneof && !w->cells[c].seen) continue; /* another of its oneof came later */
            err = walk_level(w, c, row, f.at, f.at + f.value, above);
        }
    }
    w->depth--;
    return err;
}

#include "_walk_json.h"
#include "_walk_object.h"
