/* Part of _walk.c: a request in JSON, written anew in protobuf, which is then walked like any other.
 *
 * Two kinds of errors: SYNTAX, LEVELS (and text that is not UTF-8) end it, since nothing after it can be trusted; any
 * other is the fault of the level it stands in, which is left out and noted. */

typedef struct {
    const uint8_t *p, *end;
    int levels; /* objects and arrays that are open */
} Json;

static int skip_json(Json *j);

/* ---- tokens ---- */

static inline void skip_space(Json *j) {
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t')) j->p++;
}

static inline int next_is(Json *j, char sign) {
    skip_space(j);
    if (j->p >= j->end || *j->p != (uint8_t)sign) return 0;
    j->p++;
    return 1;
}

static int word(Json *j, const char *text) {
    size_t size = strlen(text);
    if ((size_t)(j->end - j->p) < size || memcmp(j->p, text, size)) return SYNTAX;
    j->p += size;
    return OK;
}

static int peek(Json *j) {
    skip_space(j);
    return j->p < j->end ? *j->p : 0;
}

/* An object or an array begins here, no deeper than is read; so far down a parser recurses. */
static int open_with(Json *j, char sign) {
    if (!next_is(j, sign)) return peek(j) ? VALUE : SYNTAX;
    return ++j->levels > MAX_JSON ? LEVELS : OK;
}

static inline int close_with(Json *j, char sign) {
    if (!next_is(j, sign)) return 0;
    j->levels--;
    return 1;
}

/* From behind the opening quote to behind the closing one; where escapes are, they stand as they are. */
static int raw_string(Json *j, const uint8_t **at, size_t *size, int *escaped) {
    const uint8_t *start = j->p;
    *escaped = 0;
    for (; j->p < j->end; j->p++) {
        if (*j->p == '"') {
            *at = start;
            *size = (size_t)(j->p++ - start);
            return OK;
        }
        if (*j->p < 0x20) return SYNTAX;
        if (*j->p != '\\') continue;
        *escaped = 1;
        if (++j->p >= j->end || !strchr("\"\\/bfnrtu", *j->p) || !*j->p) return SYNTAX;
        if (*j->p != 'u') continue;
        if (j->end - j->p < 5) return SYNTAX;
        for (int i = 0; i < 4; i++) {
            uint8_t c = *++j->p;
            if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'))) return SYNTAX;
        }
    }
    return SYNTAX;
}

static uint32_t hex4(const uint8_t *p) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value = value << 4 | (uint32_t)(p[i] <= '9' ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    return value;
}

static size_t encode_utf8(uint8_t *to, uint32_t c) {
    if (c < 0x80) return to[0] = (uint8_t)c, (size_t)1;
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t LEAD[] = {0, 0xC0, 0xE0, 0xF0};
    for (size_t i = more; i; i--, c >>= 6) to[i] = (uint8_t)(0x80 | (c & 63));
    to[0] = (uint8_t)(LEAD[more] | c);
    return more + 1;
}

static int room_for(Buf *buf, size_t more) {
    if (more <= buf->room - buf->used) return OK;
    size_t room = buf->room ? buf->room * 2 : 4096;
    if (room < buf->used + more) room = buf->used + more;
    uint8_t *at = realloc(buf->at, room);
    if (!at) return MEMORY;
    buf->at = at;
    buf->room = room;
    return OK;
}

/* Text without its escapes, in w->text until the next string is read. */
static int unescape(Walker *w, const uint8_t **at, size_t *size) {
    const uint8_t *p = *at, *end = p + *size;
    w->text.used = 0;
    int err = room_for(&w->text, *size + 4); /* no escape is shorter than what it stands for */
    if (err) return err;
    uint8_t *to = w->text.at;
    while (p < end) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        uint32_t c;
        p += 2;
        switch (p[-1]) {
        case 'b': *to++ = '\b'; continue;
        case 'f': *to++ = '\f'; continue;
        case 'n': *to++ = '\n'; continue;
        case 'r': *to++ = '\r'; continue;
        case 't': *to++ = '\t'; continue;
        case 'u': c = hex4(p); break;
        default: *to++ = p[-1]; continue;
        }
        p += 4;
        if (c >= 0xD800 && c < 0xE000) {
            if (c >= 0xDC00 || end - p < 6 || p[0] != '\\' || p[1] != 'u') return TEXT;
            uint32_t low = hex4(p + 2);
            if (low < 0xDC00 || low >= 0xE000) return TEXT;
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            p += 6;
        }
        to += encode_utf8(to, c);
    }
    *at = w->text.at;
    *size = (size_t)(to - w->text.at);
    return OK;
}

static int read_string(Walker *w, Json *j, const uint8_t **at, size_t *size) {
    int escaped, err;
    if (!next_is(j, '"')) return peek(j) ? VALUE : SYNTAX;
    if ((err = raw_string(j, at, size, &escaped))) return err;
    return escaped ? unescape(w, at, size) : OK;
}

/* Where a number by JSON's grammar ends; whole: neither fraction nor exponent. */
static int scan_number(Json *j, int *whole) {
    *whole = 1;
    if (j->p < j->end && *j->p == '-') j->p++;
    const uint8_t *first = j->p;
    while (j->p < j->end && *j->p >= '0' && *j->p <= '9') j->p++;
    if (j->p == first || (*first == '0' && j->p - first > 1)) return SYNTAX;
    if (j->p < j->end && *j->p == '.') {
        *whole = 0;
        first = ++j->p;
        while (j->p < j->end && *j->p >= '0' && *j->p <= '9') j->p++;
        if (j->p == first) return SYNTAX;
    }
    if (j->p < j->end && (*j->p | 32) == 'e') {
        *whole = 0;
        if (++j->p < j->end && (*j->p == '+' || *j->p == '-')) j->p++;
        first = j->p;
        while (j->p < j->end && *j->p >= '0' && *j->p <= '9') j->p++;
        if (j->p == first) return SYNTAX;
    }
    return OK;
}

static int skip_members(Json *j, char sign, char close) {
    const uint8_t *at;
    size_t size;
    int escaped, err;
    if ((err = open_with(j, sign))) return err;
    if (close_with(j, close)) return OK;
    do {
        if (close == '}') {
            if (!next_is(j, '"') || raw_string(j, &at, &size, &escaped) || !next_is(j, ':')) return SYNTAX;
        }
        if ((err = skip_json(j))) return err;
    } while (next_is(j, ','));
    return close_with(j, close) ? OK : SYNTAX;
}

static int skip_json(Json *j) {
    const uint8_t *at;
    size_t size;
    int flag;
    switch (peek(j)) {
    case '{': return skip_members(j, '{', '}');
    case '[': return skip_members(j, '[', ']');
    case '"': j->p++; return raw_string(j, &at, &size, &flag);
    case 't': return word(j, "true");
    case 'f': return word(j, "false");
    case 'n': return word(j, "null");
    default: return scan_number(j, &flag);
    }
}

/* ---- writing protobuf ---- */

static int put_varint(Walker *w, uint64_t value) {
    int err = room_for(&w->out, 10);
    if (err) return err;
    for (; value >= 0x80; value >>= 7) w->out.at[w->out.used++] = (uint8_t)(value | 0x80);
    w->out.at[w->out.used++] = (uint8_t)value;
    return OK;
}

static int put_fixed(Walker *w, uint64_t value, int size) {
    int err = room_for(&w->out, 8);
    for (int i = 0; i < size && !err; i++) w->out.at[w->out.used++] = (uint8_t)(value >> (8 * i));
    return err;
}

static int put_tag(Walker *w, int number, int wire) { return put_varint(w, (uint64_t)number << 3 | (uint64_t)wire); }

static int put_bytes(Walker *w, int number, const uint8_t *at, size_t size) {
    int err = put_tag(w, number, 2);
    if (err || (err = put_varint(w, size)) || (err = room_for(&w->out, size))) return err;
    if (size) memcpy(w->out.at + w->out.used, at, size);
    w->out.used += size;
    return OK;
}

/* A message's size is known when it has ended; most fit the one byte left for it. */
static int begin_message(Walker *w, int number, size_t *start) {
    int err = put_tag(w, number, 2);
    if (err || (err = room_for(&w->out, 1))) return err;
    *start = ++w->out.used;
    return OK;
}

static int end_message(Walker *w, size_t start) {
    const size_t size = w->out.used - start;
    size_t more = 0;
    for (size_t rest = size >> 7; rest; rest >>= 7) more++;
    int err = room_for(&w->out, more);
    if (err) return err;
    if (more) memmove(w->out.at + start + more, w->out.at + start, size);
    w->out.used = start - 1;
    err = put_varint(w, size);
    w->out.used += size;
    return err;
}

/* ---- values ---- */

static int to_double(Walker *w, const uint8_t *at, size_t size, double *out) {
    Buf *text = &w->text;
    int err;
    if (at != text->at) { /* a string without escapes, or a number: in the input still */
        text->used = 0;
        if ((err = room_for(text, size + 1))) return err;
        memcpy(text->at, at, size);
    } else if ((text->used = size, err = room_for(text, 1))) return err;
    text->at[size] = 0;
    *out = PyOS_string_to_double((const char *)text->at, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return VALUE;
    }
    return isinf(*out) ? RANGE : OK;
}

/* A number, or a string that holds one: where it stands. */
static int read_number(Walker *w, Json *j, const uint8_t **at, size_t *size, int *whole, int *quoted) {
    *quoted = peek(j) == '"';
    if (*quoted) {
        int err = read_string(w, j, at, size);
        if (err) return err;
        Json inner = {*at, *at + *size};
        return scan_number(&inner, whole) || inner.p != inner.end ? VALUE : OK;
    }
    *at = j->p;
    int c = peek(j);
    if (c != '-' && (c < '0' || c > '9')) return c ? VALUE : SYNTAX;
    *at = j->p;
    int err = scan_number(j, whole);
    *size = (size_t)(j->p - *at);
    return err;
}

/* A whole number between bounds; 1e3 is one. */
static int read_integer(Walker *w, Json *j, int64_t low, uint64_t high, uint64_t *out) {
    const uint8_t *at;
    size_t size;
    int whole, quoted, err = read_number(w, j, &at, &size, &whole, &quoted);
    if (err) return err;
    const int negative = *at == '-';
    uint64_t value = 0;
    if (!whole) {
        double number;
        if ((err = to_double(w, at, size, &number))) return err;
        if (number != floor(number)) return VALUE;
        if (fabs(number) >= 9223372036854775808.0) return RANGE;
        value = (uint64_t)fabs(number);
    }
    for (size_t i = (size_t)negative; whole && i < size; i++) {
        if (value > (UINT64_MAX - (uint64_t)(at[i] - '0')) / 10) return RANGE;
        value = value * 10 + (uint64_t)(at[i] - '0');
    }
    if (negative ? value > 0 - (uint64_t)low : value > high) return RANGE;
    *out = negative ? 0 - value : value;
    return OK;
}

static int read_double(Walker *w, Json *j, uint64_t *bits) {
    const uint8_t *at;
    size_t size;
    int whole, quoted;
    const uint8_t *start = (peek(j), j->p);
    int err = read_number(w, j, &at, &size, &whole, &quoted);
    double number;
    if (err == VALUE && quoted) { /* perhaps one of the three that JSON has no numbers for */
        j->p = start;
        if ((err = read_string(w, j, &at, &size))) return err;
        if (size == 3 && !memcmp(at, "NaN", 3)) number = Py_NAN;
        else if (size == 8 && !memcmp(at, "Infinity", 8)) number = HUGE_VAL;
        else if (size == 9 && !memcmp(at, "-Infinity", 9)) number = -HUGE_VAL;
        else return VALUE;
    } else if (err || (err = to_double(w, at, size, &number))) return err;
    memcpy(bits, &number, 8);
    return OK;
}

static int read_bool(Json *j, uint64_t *out) {
    int c = peek(j);
    *out = c == 't';
    return c == 't' ? word(j, "true") : c == 'f' ? word(j, "false") : c ? VALUE : SYNTAX;
}

static int sextet(uint8_t c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* In place; padding may be left out. */
static int decode_base64(Walker *w, const uint8_t **at, size_t *size) {
    const uint8_t *from = *at;
    size_t count = *size, used = 0;
    uint32_t bits = 0;
    int err = OK;
    if (count % 4 == 0) for (int i = 0; i < 2 && count && from[count - 1] == '='; i++) count--;
    if (count % 4 == 1) return VALUE;
    if (from != w->text.at) {
        w->text.used = 0;
        if ((err = room_for(&w->text, count + 1))) return err;
    }
    for (size_t i = 0; i < count; i++) {
        int six = sextet(from[i]);
        if (six < 0) return VALUE;
        bits = bits << 6 | (uint32_t)six;
        if (i % 4) w->text.at[used++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *at = w->text.at;
    *size = used;
    return OK;
}

static int put_id(Walker *w, Json *j, const Node *node) {
    const uint8_t *at;
    size_t size, want = (size_t)node->arg;
    uint8_t id[64];
    int err = read_string(w, j, &at, &size);
    if (err || !size) return err;
    if (size == want * 2) {
        for (size_t i = 0; i < size; i++) {
            uint8_t c = at[i], low = c | 32;
            if (!((c >= '0' && c <= '9') || (low >= 'a' && low <= 'f'))) return LENGTH;
            uint8_t four = c <= '9' ? c - '0' : low - 'a' + 10;
            id[i / 2] = i % 2 ? (uint8_t)(id[i / 2] | four) : (uint8_t)(four << 4);
        }
        return put_bytes(w, node->number, id, want);
    }
    if (w->strict || size != (want + 2) / 3 * 4 || decode_base64(w, &at, &size) || size != want) return LENGTH;
    return put_bytes(w, node->number, at, size);
}

/* A number; or, unless strict, a member's name. */
static int put_enum(Walker *w, Json *j, const Node *node) {
    const uint8_t *at;
    size_t size;
    uint64_t value = 0;
    if (!*node->names || peek(j) != '"') {
        int err = read_integer(w, j, INT32_MIN, INT32_MAX, &value);
        if (err || (err = put_tag(w, node->number, 0))) return err;
        return put_varint(w, node->op == SINT32 ? value << 1 ^ (0 - (value >> 63)) : value);
    }
    int err = read_string(w, j, &at, &size);
    if (err) return err;
    if (w->strict || !size) return VALUE;
    for (const char *p = node->names; *p; p = strchr(p, '\n') + 1) {
        if (strlen(p) <= size || memcmp(p, at, size) || p[size] != '=') continue;
        if ((err = put_tag(w, node->number, 0))) return err;
        return put_varint(w, strtoul(p + size + 1, NULL, 10));
    }
    return VALUE;
}

#include "_walk_request.h"
