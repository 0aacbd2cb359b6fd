/* Where the fields of a JSON object are in its text, and the items of those that are arrays.
 *
 * Table metadata is mostly history: thousands of snapshots, of which a reader needs one. The text is looked at in
 * blocks of 64 bytes. Three bit masks have what counts: quotes, brackets, and commas or colons. Only the first two
 * levels are taken apart; deeper down, brackets are matched and nothing else is looked at.
 *
 * Every byte of the text ends up as white space that was checked, as a separator, in a key, or inside a span. So the
 * document is right if each span is right, and the caller decodes a span before it uses it. What is not plainly an
 * object (a key with an escape, deep nesting, a missing comma) has no answer: the caller then decodes the whole text,
 * which finds the reason. The walk runs without the GIL. */

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#define BLOCK 64
#define MAX_DEPTH 60 /* each open bracket has a bit in a word */

enum { DONE, NO_ANSWER, NO_MEMORY };

typedef struct {
    int64_t key, key_end, start, end;
    int64_t items, items_end; /* its part of `spans`; -1 if it is no array */
} Field;

typedef struct {
    int64_t from;   /* where its key, value or item begins, with the white space before it */
    int64_t closed; /* where the bracket of the value was closed; 0 if it has none so far */
} Level;

typedef struct {
    const uint8_t *text;
    int64_t size;
    Field *fields;
    int64_t n_fields, room_fields;
    int64_t *spans; /* pairs: where an item begins and ends */
    int64_t n_spans, room_spans;
    uint64_t kinds; /* a bit for each open bracket, the lowest for the innermost: 1 for an array */
    int depth;      /* open brackets */
    int has_key;
    int64_t whole; /* where the object ends; 0 if it is still open */
    Level levels[3]; /* by depth: 1 is the object itself, 2 an array in it */
    Field field;     /* the one that is read */
} Walk;

static int lowest(uint64_t word) {
#if defined(_MSC_VER)
    unsigned long at;
    _BitScanForward64(&at, word);
    return (int)at;
#else
    return __builtin_ctzll(word);
#endif
}

static int is_blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

static int all_blank(const Walk *w, int64_t from, int64_t to) {
    while (from < to && is_blank(w->text[from])) from++;
    return from >= to;
}

static void *with_room(void *old, int64_t used, int64_t *room, size_t size) {
    if (used < *room) return old;
    int64_t wanted = *room ? *room * 2 : 64;
    void *found = realloc(old, (size_t)wanted * size);
    if (found) *room = wanted;
    return found;
}

/* Whether brackets, commas and colons at this depth separate fields or items. */
static int is_taken_apart(const Walk *w) { return w->depth == 1 || (w->depth == 2 && (w->kinds & 1)); }

/* ---- the parts of the two levels ---- */

/* The part that ends at `to`, without the white space around it. */
static int end_part(const Walk *w, const Level *level, int64_t to, int64_t *start, int64_t *end) {
    *start = level->from;
    *end = level->closed ? level->closed : to;
    if (!all_blank(w, *end, to)) return NO_ANSWER; /* something behind a bracket */
    while (*start < *end && is_blank(w->text[*start])) ++*start;
    while (*start < *end && is_blank(w->text[*end - 1])) --*end;
    return *start < *end ? DONE : NO_ANSWER;
}

static int end_item(Walk *w, int64_t to) {
    int64_t start, end;
    if (end_part(w, &w->levels[2], to, &start, &end)) return NO_ANSWER;
    int64_t *spans = with_room(w->spans, w->n_spans + 1, &w->room_spans, sizeof(int64_t));
    if (!spans) return NO_MEMORY;
    w->spans = spans;
    spans[w->n_spans++] = start;
    spans[w->n_spans++] = end;
    w->levels[2] = (Level){to + 1, 0};
    return DONE;
}

static int end_key(Walk *w, int64_t to) {
    int64_t start, end;
    if (w->has_key || end_part(w, &w->levels[1], to, &start, &end)) return NO_ANSWER;
    if (end - start < 2 || w->text[start] != '"' || w->text[end - 1] != '"') return NO_ANSWER;
    for (int64_t at = start + 1; at < end - 1; at++) /* one string, and one without escapes */
        if (w->text[at] == '"' || w->text[at] == '\\' || w->text[at] < 0x20) return NO_ANSWER;
    w->field = (Field){start + 1, end - 1, 0, 0, -1, -1};
    w->has_key = 1;
    w->levels[1] = (Level){to + 1, 0};
    return DONE;
}

static int end_field(Walk *w, int64_t to) {
    if (!w->has_key || end_part(w, &w->levels[1], to, &w->field.start, &w->field.end)) return NO_ANSWER;
    Field *fields = with_room(w->fields, w->n_fields, &w->room_fields, sizeof(Field));
    if (!fields) return NO_MEMORY;
    w->fields = fields;
    fields[w->n_fields++] = w->field;
    w->has_key = 0;
    w->levels[1] = (Level){to + 1, 0};
    return DONE;
}

/* ---- the walk over what the masks show ---- */

static int open_bracket(Walk *w, int64_t at, int array) {
    if (w->depth == MAX_DEPTH || w->whole) return NO_ANSWER;
    if (w->depth == 0) {
        if (array || !all_blank(w, 0, at)) return NO_ANSWER;
        w->levels[1] = (Level){at + 1, 0};
    } else if (is_taken_apart(w)) { /* a value with a bracket begins with it, and has no second one */
        const Level *level = &w->levels[w->depth];
        if (level->closed || !all_blank(w, level->from, at) || (w->depth == 1 && !w->has_key)) return NO_ANSWER;
    }
    w->kinds = w->kinds << 1 | (uint64_t)array;
    w->depth++;
    if (w->depth == 2 && array) {
        w->levels[2] = (Level){at + 1, 0};
        w->field.items = w->n_spans;
    }
    return DONE;
}

static int close_bracket(Walk *w, int64_t at, int array) {
    int err = DONE;
    if (w->depth == 0 || (int)(w->kinds & 1) != array) return NO_ANSWER;
    if (w->depth == 1) {
        int empty = !w->n_fields && !w->has_key && all_blank(w, w->levels[1].from, at);
        if (!empty) err = end_field(w, at);
        w->whole = at + 1;
    } else if (w->depth == 2 && array) {
        int empty = w->n_spans == w->field.items && all_blank(w, w->levels[2].from, at);
        if (!empty) err = end_item(w, at);
        w->field.items_end = w->n_spans;
    }
    w->kinds >>= 1;
    w->depth--;
    if (w->depth && is_taken_apart(w)) w->levels[w->depth].closed = at + 1;
    return err;
}

static int separator(Walk *w, int64_t at, int comma) {
    if (w->depth == 1) return comma ? end_field(w, at) : end_key(w, at);
    return w->depth == 2 && comma ? end_item(w, at) : NO_ANSWER;
}

/* ---- the masks of a block ---- */

typedef struct {
    uint64_t quotes, escapes, brackets, separators;
} Masks;

#if defined(__SSE2__)
static Masks look_at(const uint8_t *block) {
    Masks found = {0, 0, 0, 0};
    for (int part = 0; part < 4; part++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(block + part * 16));
        __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20)); /* [ becomes {, and ] becomes } */
        __m128i open = _mm_cmpeq_epi8(folded, _mm_set1_epi8('{')), close = _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'));
        __m128i comma = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(',')), colon = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(':'));
        int shift = part * 16;
        found.quotes |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'))) << shift;
        found.escapes |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))) << shift;
        found.brackets |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_or_si128(open, close)) << shift;
        found.separators |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_or_si128(comma, colon)) << shift;
    }
    return found;
}
#else
static Masks look_at(const uint8_t *block) {
    Masks found = {0, 0, 0, 0};
    for (int at = 0; at < BLOCK; at++) {
        uint8_t byte = block[at];
        found.quotes |= (uint64_t)(byte == '"') << at;
        found.escapes |= (uint64_t)(byte == '\\') << at;
        found.brackets |= (uint64_t)((byte | 0x20) == '{' || (byte | 0x20) == '}') << at;
        found.separators |= (uint64_t)(byte == ',' || byte == ':') << at;
    }
    return found;
}
#endif

/* The bytes that an escape precedes. `carry` is whether the first one is such a byte; after it, the first of the next
 * block. */
static uint64_t escaped(uint64_t escapes, uint64_t *carry) {
    uint64_t found = *carry;
    escapes &= ~*carry;
    *carry = 0;
    while (escapes) {
        int at = lowest(escapes);
        if (at == BLOCK - 1) {
            *carry = 1;
            break;
        }
        found |= (uint64_t)2 << at;
        escapes &= ~((uint64_t)3 << at);
    }
    return found;
}

/* For each bit, whether the number of bits up to it is odd. */
static uint64_t odd_before(uint64_t bits) {
    for (int by = 1; by < 64; by *= 2) bits ^= bits << by;
    return bits;
}

static int walk_block(Walk *w, const uint8_t *block, int64_t base, uint64_t *carry, uint64_t *inside) {
    Masks masks = look_at(block);
    if (masks.escapes | *carry) masks.quotes &= ~escaped(masks.escapes, carry);
    uint64_t strings = odd_before(masks.quotes) ^ *inside;
    *inside = (uint64_t)0 - (strings >> 63);
    masks.brackets &= ~strings;
    masks.separators &= ~strings;
    uint64_t left = ~(uint64_t)0;
    for (;;) {
        uint64_t bits = masks.brackets & left;
        if (w->depth == 0 || is_taken_apart(w)) bits |= masks.separators & left;
        if (!bits) return DONE;
        int at = lowest(bits), err;
        left = at == BLOCK - 1 ? 0 : ~(uint64_t)0 << (at + 1);
        switch (block[at]) {
        case '{': err = open_bracket(w, base + at, 0); break;
        case '[': err = open_bracket(w, base + at, 1); break;
        case '}': err = close_bracket(w, base + at, 0); break;
        case ']': err = close_bracket(w, base + at, 1); break;
        default: err = separator(w, base + at, block[at] == ',');
        }
        if (err) return err;
    }
}

static int walk(Walk *w) {
    uint64_t carry = 0, inside = 0;
    int64_t base = 0;
    int err;
    for (; w->size - base >= BLOCK; base += BLOCK)
        if ((err = walk_block(w, w->text + base, base, &carry, &inside))) return err;
    uint8_t last[BLOCK];
    memset(last, ' ', BLOCK);
    memcpy(last, w->text + base, (size_t)(w->size - base));
    if ((err = walk_block(w, last, base, &carry, &inside))) return err;
    return w->whole && !inside && all_blank(w, w->whole, w->size) ? DONE : NO_ANSWER;
}

/* ---- the answer ---- */

static PyObject *field_of(const Walk *w, const Field *field) {
    PyObject *key = PyUnicode_DecodeUTF8((const char *)w->text + field->key, field->key_end - field->key, NULL);
    if (!key) return NULL;
    if (field->items < 0)
        return Py_BuildValue("(NLLO)", key, (long long)field->start, (long long)field->end, Py_None);
    Py_ssize_t size = (Py_ssize_t)((field->items_end - field->items) * (int64_t)sizeof(int64_t));
    const char *spans = size ? (const char *)(w->spans + field->items) : "";
    return Py_BuildValue("(NLLy#)", key, (long long)field->start, (long long)field->end, spans, size);
}

static PyObject *answer_of(const Walk *w) {
    PyObject *answer = PyList_New((Py_ssize_t)w->n_fields);
    for (int64_t at = 0; answer && at < w->n_fields; at++) {
        PyObject *field = field_of(w, &w->fields[at]);
        if (!field || PyList_SetItem(answer, (Py_ssize_t)at, field)) Py_CLEAR(answer);
    }
    if (!answer && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return answer;
}

static PyObject *split(PyObject *module, PyObject *content) {
    (void)module;
    char *text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(content, &text, &size)) return NULL;
    Walk w = {.text = (const uint8_t *)text, .size = size};
    int err;
    Py_BEGIN_ALLOW_THREADS
    err = walk(&w);
    Py_END_ALLOW_THREADS
    PyObject *answer;
    if (err == NO_MEMORY) {
        answer = PyErr_NoMemory();
    } else if (err) {
        answer = Py_NewRef(Py_None);
    } else {
        answer = answer_of(&w);
    }
    free(w.fields);
    free(w.spans);
    return answer;
}

static PyMethodDef methods[] = {
    {"split", split, METH_O,
     "The fields of a JSON object: key, where its value begins and ends, and the same of its items (pairs of 64 bits) "
     "if it is an array. None if the text is not plainly an object."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_split", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__split(void) { return PyModuleDef_Init(&definition); }
