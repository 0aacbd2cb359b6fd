/* Thrift's compact encoding, as far as Parquet uses it. Every read is checked against the end. */

typedef struct {
    const uint8_t *p, *end;
} Cursor;

enum { T_TRUE = 1, T_FALSE, T_BYTE, T_I16, T_I32, T_I64, T_DOUBLE, T_BINARY, T_LIST, T_SET, T_MAP, T_STRUCT };

#define DEEPEST 32

static int varint(Cursor *c, uint64_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (c->p == c->end) return 0;
        uint8_t byte = *c->p++;
        found |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = found;
            return 1;
        }
    }
    return 0;
}

static int number(Cursor *c, int64_t *value) {
    uint64_t raw;
    if (!varint(c, &raw)) return 0;
    *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return 1;
}

static int pass(Cursor *c, uint64_t bytes) {
    if (bytes > (uint64_t)(c->end - c->p)) return 0;
    c->p += bytes;
    return 1;
}

/* Text or binary: where it starts, and its length. */
static int binary(Cursor *c, const uint8_t **start, uint64_t *length) {
    if (!varint(c, length)) return 0;
    *start = c->p;
    return pass(c, *length);
}

/* The next field of a struct: 1 if there is one, 0 at the end, -1 if it makes no sense. */
static int field(Cursor *c, int64_t *id, int *kind) {
    if (c->p == c->end) return -1;
    uint8_t head = *c->p++;
    if (!head) return 0;
    *kind = head & 15;
    if (head >> 4) {
        *id += head >> 4;
    } else if (!number(c, id)) {
        return -1;
    }
    return *id < 0 || *id > INT16_MAX ? -1 : 1;
}

/* The head of a list: how many items it has, and of which kind. An item has at least one byte. */
static int list(Cursor *c, uint64_t *count, int *kind) {
    if (c->p == c->end) return 0;
    uint8_t head = *c->p++;
    *kind = head & 15;
    *count = head >> 4;
    if (*count == 15 && !varint(c, count)) return 0;
    return *count <= (uint64_t)(c->end - c->p);
}

static int skip(Cursor *c, int kind, int depth) {
    uint64_t count;
    const uint8_t *start;
    int64_t id = 0;
    int inner, more;
    if (depth > DEEPEST) return 0;
    switch (kind) {
    case T_TRUE:
    case T_FALSE: return 1;
    case T_BYTE: return pass(c, 1);
    case T_I16:
    case T_I32:
    case T_I64: return varint(c, &count);
    case T_DOUBLE: return pass(c, 8);
    case T_BINARY: return binary(c, &start, &count);
    case T_LIST:
    case T_SET:
        if (!list(c, &count, &inner)) return 0;
        while (count--) {
            if (inner == T_TRUE || inner == T_FALSE ? !pass(c, 1) : !skip(c, inner, depth + 1)) return 0;
        }
        return 1;
    case T_STRUCT:
        while ((more = field(c, &id, &inner)) > 0) {
            if (!skip(c, inner, depth + 1)) return 0;
        }
        return more == 0;
    default: return 0; /* Parquet has no maps */
    }
}
