/* The values of one column: pages decoded into Arrow's buffers. Nothing but ``grown`` needs the interpreter. FIXED is a
 * decimal of so many bytes, AS_STORED is any other value of a fixed length. */

enum { BOOLEAN = 0, INT32 = 1, INT64 = 2, FLOAT = 4, DOUBLE = 5, BYTE_ARRAY = 6, FIXED = 7, AS_STORED = 8 };
enum { ENC_PLAIN = 0, ENC_PLAIN_DICTIONARY = 2, ENC_RLE = 3, ENC_RLE_DICTIONARY = 8 };

#define MAX_DATA (1 << 28) /* bytes of the texts of one result; 32-bit offsets would allow more */
#define PAD 16 /* bytes after a buffer that short copies may touch */

typedef struct {
    uint8_t *at;
    size_t room;
} Scratch;

typedef struct {
    int type, optional, stored, width; /* bytes of a value in a page, and in the result; 0: of any length */
    int64_t start, stop, row;          /* the rows that are wanted of the chunks, and the next row */
    const uint8_t *mask;               /* one byte per wanted row: 1 keeps it. NULL keeps all */
    int64_t room, out, nulls;          /* rows of the result */
    uint8_t *values, *valid;           /* values: offsets if of any length */
    uint8_t *data;                     /* the bytes of values of any length */
    size_t data_used, data_room;
    PyObject *allocate, *data_object; /* makes buffers, and the one that holds the bytes */
    Py_buffer data_view;
    uint8_t *dictionary; /* values of fixed length, or the bytes of others */
    uint32_t *ends;      /* where each of the others ends */
    int64_t dictionary_size;
    const uint8_t *truth; /* instead of the dictionary: a byte for each of its values, which is the result */
    int64_t truth_size;
    Scratch dictionary_scratch, ends_scratch, levels, indices, wide, keep;
} Column;

static int sized(Scratch *scratch, size_t bytes) {
    if (scratch->room >= bytes) return 1;
    size_t room = bytes + bytes / 2 + 64;
    uint8_t *at = realloc(scratch->at, room);
    if (!at) return 0;
    scratch->at = at;
    scratch->room = room;
    return 1;
}

static void freed(Column *col) {
    free(col->dictionary_scratch.at);
    free(col->ends_scratch.at);
    free(col->levels.at);
    free(col->indices.at);
    free(col->wide.at);
    free(col->keep.at);
    if (col->data_view.obj) PyBuffer_Release(&col->data_view);
    Py_XDECREF(col->data_object);
}

static inline uint32_t u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t u64(const uint8_t *p) { return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32; }

/* ---- runs and bit-packed groups ---- */

static inline __attribute__((always_inline)) void unpack_groups(const uint8_t *p, uint32_t *out, int64_t groups,
                                                                const int width) {
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    for (; groups > 0; groups--, p += width, out += 8) {
        for (int k = 0; k < 8; k++) out[k] = (uint32_t)(u64(p + (k * width >> 3)) >> (k * width & 7) & mask);
    }
}

#define CASE(w)                                                                                                        \
    case w: unpack_groups(p, out, groups, w); break;

static void unpack(const uint8_t *p, uint32_t *out, int64_t groups, int width) {
    switch (width) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13)
        CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20)
    default: unpack_groups(p, out, groups, width);
    }
}

/* Bit-packed groups of 8 values. Loads have 8 bytes, so the last groups are unpacked from a padded copy. */
static void unpack_safely(const uint8_t *p, const uint8_t *end, uint32_t *out, int64_t groups, int width) {
    int64_t inside = (end - p - PAD) / width;
    int64_t direct = inside < 0 ? 0 : inside < groups ? inside : groups;
    unpack(p, out, direct, width);
    uint8_t padded[32 + PAD];
    memset(padded, 0, sizeof padded);
    for (int64_t at = direct; at < groups; at++) {
        memcpy(padded, p + at * width, (size_t)width);
        unpack(padded, out + at * 8, 1, width);
    }
}

/* ``count`` numbers of ``width`` bits. ``out`` has room for 8 more. */
static int hybrid(const uint8_t *p, const uint8_t *end, int width, uint32_t *out, int64_t count) {
    int64_t done = 0;
    if (width > 32) return 0;
    if (!width) {
        memset(out, 0, (size_t)count * 4);
        return 1;
    }
    while (done < count) {
        Cursor c = {p, end};
        uint64_t head;
        if (!varint(&c, &head) || !(head >> 1) || head >> 1 > (uint64_t)1 << 32) return 0;
        p = c.p;
        int64_t left = count - done;
        if (head & 1) {
            int64_t groups = (int64_t)(head >> 1);
            if (groups > (end - p) / width) return 0;
            int64_t used = (left + 7) / 8 < groups ? (left + 7) / 8 : groups;
            unpack_safely(p, end, out + done, used, width);
            p += groups * width;
            done += used * 8;
        } else {
            int bytes = (width + 7) / 8;
            if (end - p < bytes) return 0;
            uint32_t value = 0;
            for (int at = 0; at < bytes; at++) value |= (uint32_t)p[at] << 8 * at;
            p += bytes;
            int64_t run = (int64_t)(head >> 1) < left ? (int64_t)(head >> 1) : left;
            for (int64_t at = 0; at < run; at++) out[done + at] = value;
            done += run;
        }
    }
    return 1;
}

/* Levels 0 or 1 of ``count`` rows: how many are 1. -1 if they make no sense. ``*levels`` is NULL if all are 1. */
static int64_t levels_of(Column *col, const uint8_t *p, const uint8_t *end, int64_t count, const uint8_t **levels) {
    Cursor c = {p, end};
    uint64_t head;
    *levels = NULL;
    if (varint(&c, &head) && !(head & 1) && (int64_t)(head >> 1) >= count && c.p < end && *c.p == 1) return count;
    if (!sized(&col->indices, ((size_t)count + 8) * 4) || !sized(&col->levels, (size_t)count + 1)) return -1;
    uint32_t *found = (uint32_t *)col->indices.at;
    if (!hybrid(p, end, 1, found, count)) return -1;
    int64_t ones = 0;
    for (int64_t at = 0; at < count; at++) {
        if (found[at] > 1) return -1;
        col->levels.at[at] = (uint8_t)found[at];
        ones += found[at];
    }
    if (ones < count) *levels = col->levels.at;
    return ones;
}

/* ---- from stored values to values of the result ---- */

/* Numbers as decimals of 16 bytes. Stored as 4 or 8 bytes, or as up to 16 bytes with the highest first. */
static void widened(const uint8_t *from, uint8_t *to, int64_t count, int type, int stored) {
    for (int64_t at = 0; at < count; at++, from += stored, to += 16) {
        if (type == FIXED) {
            memset(to, from[0] & 0x80 ? 0xFF : 0, 16);
            for (int byte = 0; byte < stored; byte++) to[byte] = from[stored - 1 - byte];
        } else {
            int64_t value = type == INT32 ? (int64_t)(int32_t)u32(from) : (int64_t)u64(from);
            int64_t sign = value >> 63;
            memcpy(to, &value, 8);
            memcpy(to + 8, &sign, 8);
        }
    }
}

/* A dictionary page. It is copied: the page goes before the dictionary does. */
static int read_dictionary(Column *col, const uint8_t *p, const uint8_t *end, int64_t count) {
    size_t bytes = (size_t)(end - p);
    if (col->type == BOOLEAN || count < 0) return 0;
    if (col->width) {
        if (count > (int64_t)(bytes / (size_t)col->stored)) return 0;
        if (!sized(&col->dictionary_scratch, (size_t)count * (size_t)col->width + PAD)) return 0;
        col->dictionary = col->dictionary_scratch.at;
        if (col->stored == col->width && col->type != FIXED) {
            memcpy(col->dictionary, p, (size_t)count * (size_t)col->width);
        } else {
            widened(p, col->dictionary, count, col->type, col->stored);
        }
        col->dictionary_size = count;
        return 1;
    }
    if (bytes > MAX_DATA || count > (int64_t)(bytes / 4)) return 0;
    if (!sized(&col->dictionary_scratch, bytes + PAD) || !sized(&col->ends_scratch, ((size_t)count + 1) * 4)) return 0;
    col->dictionary = col->dictionary_scratch.at;
    col->ends = (uint32_t *)col->ends_scratch.at;
    uint32_t used = 0;
    col->ends[0] = 0;
    for (int64_t at = 0; at < count; at++) {
        if (end - p < 4) return 0;
        uint32_t length = u32(p);
        p += 4;
        if ((int64_t)length > end - p) return 0;
        memcpy(col->dictionary + used, p, length);
        p += length;
        col->ends[at + 1] = used += length;
    }
    col->dictionary_size = count;
    return 1;
}

/* ---- rows of the result ---- */

static inline void is_null(Column *col, int64_t out) {
    col->valid[out >> 3] &= (uint8_t) ~(1 << (out & 7));
    col->nulls++;
}

/* A larger buffer for the bytes of values. Called with or without the interpreter's lock. */
static int grown(Column *col, size_t room) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_buffer view = {0};
    PyObject *made = PyObject_CallFunction(col->allocate, "n", (Py_ssize_t)room);
    int done = made && !PyObject_GetBuffer(made, &view, PyBUF_WRITABLE);
    if (done && view.len >= (Py_ssize_t)room) {
        if (col->data_used) memcpy(view.buf, col->data, col->data_used);
        if (col->data_view.obj) PyBuffer_Release(&col->data_view);
        Py_XDECREF(col->data_object);
        col->data_object = made;
        col->data_view = view;
        col->data = view.buf;
        col->data_room = room;
    } else {
        if (done) PyBuffer_Release(&view);
        Py_XDECREF(made);
        done = 0;
    }
    PyGILState_Release(state);
    return done;
}

static int room_for(Column *col, size_t bytes) {
    size_t wanted = col->data_used + bytes + PAD;
    if (bytes > MAX_DATA || wanted > MAX_DATA) return 0;
    return wanted <= col->data_room || grown(col, wanted + wanted / 2);
}

/* VALUE(i) is value i of the page. The loops without nulls have no branch. */
#define EMIT(T)                                                                                                        \
    {                                                                                                                  \
        T *into = (T *)col->values + col->out;                                                                         \
        const T *from = (const T *)source;                                                                             \
        if (!levels && !keep) {                                                                                        \
            if (indices) {                                                                                             \
                for (int64_t at = 0; at < count; at++) into[at] = from[indices[at]];                                   \
            } else {                                                                                                   \
                memcpy(into, source, (size_t)count * sizeof(T));                                                       \
            }                                                                                                          \
            col->out += count;                                                                                         \
        } else if (!levels) {                                                                                          \
            int64_t out = 0;                                                                                           \
            for (int64_t at = 0; at < count; at++) {                                                                   \
                memcpy(into + out, from + (indices ? indices[at] : (uint64_t)at), sizeof(T));                          \
                out += keep[at];                                                                                       \
            }                                                                                                          \
            col->out += out;                                                                                           \
        } else {                                                                                                       \
            int64_t value = 0, out = 0;                                                                                \
            for (int64_t at = 0; at < count; at++) {                                                                   \
                if (!keep || keep[at]) {                                                                               \
                    if (levels[at]) {                                                                                  \
                        memcpy(into + out, from + (indices ? indices[value] : (uint64_t)value), sizeof(T));            \
                    } else {                                                                                           \
                        memset(into + out, 0, sizeof(T));                                                              \
                        is_null(col, col->out + out);                                                                  \
                    }                                                                                                  \
                    out++;                                                                                             \
                }                                                                                                      \
                value += levels[at];                                                                                   \
            }                                                                                                          \
            col->out += out;                                                                                           \
        }                                                                                                              \
    }

typedef struct {
    uint64_t low, high;
} Wide;

static int emit_fixed(Column *col, const uint8_t *source, const uint32_t *indices, const uint8_t *levels,
                      int64_t count, const uint8_t *keep) {
    switch (col->width) {
    case 1: EMIT(uint8_t) return 1;
    case 4: EMIT(uint32_t) return 1;
    case 8: EMIT(uint64_t) return 1;
    case 16: EMIT(Wide) return 1;
    default: return 0;
    }
}

static int emit_indexed(Column *col, const uint32_t *indices, const uint8_t *levels, int64_t count,
                        const uint8_t *keep) {
    const uint32_t *ends = col->ends;
    int32_t *offsets = (int32_t *)col->values;
    int64_t value = 0;
    uint64_t bytes = 0;
    for (int64_t at = 0; at < count; at++) {
        if (levels && !levels[at]) continue;
        if (!keep || keep[at]) bytes += ends[indices[value] + 1] - ends[indices[value]];
        value++;
    }
    if (bytes > MAX_DATA || !room_for(col, bytes)) return 0;
    size_t used = col->data_used;
    value = 0;
    for (int64_t at = 0; at < count; at++) {
        int there = !levels || levels[at];
        if (!keep || keep[at]) {
            if (there) {
                uint32_t start = ends[indices[value]], length = ends[indices[value] + 1] - start;
                if (length <= PAD) { /* both buffers have so many bytes more */
                    memcpy(col->data + used, col->dictionary + start, PAD);
                } else {
                    memcpy(col->data + used, col->dictionary + start, length);
                }
                used += length;
            } else {
                is_null(col, col->out);
            }
            offsets[++col->out] = (int32_t)used;
        }
        value += there;
    }
    col->data_used = used;
    return 1;
}

static int emit_texts(Column *col, const uint8_t *p, const uint8_t *end, const uint8_t *levels, int64_t count,
                      const uint8_t *keep) {
    int32_t *offsets = (int32_t *)col->values;
    if (!room_for(col, (size_t)(end - p))) return 0;
    for (int64_t at = 0; at < count; at++) {
        int there = !levels || levels[at], kept = !keep || keep[at];
        if (there) {
            if (end - p < 4) return 0;
            uint32_t length = u32(p);
            p += 4;
            if ((int64_t)length > end - p) return 0;
            if (kept) {
                memcpy(col->data + col->data_used, p, length);
                col->data_used += length;
            }
            p += length;
        } else if (kept) {
            is_null(col, col->out);
        }
        if (kept) offsets[++col->out] = (int32_t)col->data_used;
    }
    return 1;
}

/* Which of the next ``count`` rows are wanted and kept, a byte for each. NULL keeps all. 0 without memory. */
static int kept_of(Column *col, int64_t count, const uint8_t **keep) {
    int64_t from = col->row < col->start ? col->start : col->row;
    int64_t to = col->row + count < col->stop ? col->row + count : col->stop;
    const uint8_t *mask = col->mask ? col->mask + (from - col->start) : NULL;
    *keep = mask;
    if (to - from == count) return 1;
    if (!sized(&col->keep, (size_t)count)) return 0;
    memset(col->keep.at, 0, (size_t)count);
    if (mask) {
        memcpy(col->keep.at + (from - col->row), mask, (size_t)(to - from));
    } else {
        memset(col->keep.at + (from - col->row), 1, (size_t)(to - from));
    }
    *keep = col->keep.at;
    return 1;
}

/* ``count`` rows of a page whose values start at ``p``. ``there`` of them are not null. Some of them are wanted. */
static int read_values(Column *col, const uint8_t *p, const uint8_t *end, int encoding, int64_t count, int64_t there,
                       const uint8_t *levels) {
    static const uint8_t truth[2 + PAD] = {0, 1};
    const uint8_t *keep, *source = col->dictionary;
    int64_t kept = count, bound = col->dictionary_size;
    int width;
    if (!kept_of(col, count, &keep)) return 0;
    if (keep) {
        kept = 0;
        for (int64_t at = 0; at < count; at++) kept += keep[at];
    }
    col->row += count;
    if (col->out + kept > col->room) return 0;
    if (!kept) return 1;
    if (encoding == ENC_PLAIN && col->type != BOOLEAN) {
        if (col->truth) return 0;
        if (!col->width) return emit_texts(col, p, end, levels, count, keep);
        if (there > (end - p) / col->stored) return 0;
        source = p;
        if (col->stored != col->width || col->type == FIXED) {
            if (!sized(&col->wide, (size_t)there * 16 + PAD)) return 0;
            widened(p, col->wide.at, there, col->type, col->stored);
            source = col->wide.at;
        }
        return emit_fixed(col, source, NULL, levels, count, keep);
    }
    /* The levels are copied already, so that this scratch is free again. */
    if (!sized(&col->indices, ((size_t)there + 8) * 4)) return 0;
    uint32_t *indices = (uint32_t *)col->indices.at;
    if (col->type == BOOLEAN) {
        source = truth;
        bound = 2;
        if (encoding == ENC_PLAIN) {
            if ((there + 7) / 8 > end - p) return 0;
            unpack_safely(p, end, indices, (there + 7) / 8, 1);
        } else if (encoding != ENC_RLE || end - p < 4 || u32(p) > end - p - 4 ||
                   !hybrid(p + 4, p + 4 + u32(p), 1, indices, there)) {
            return 0;
        }
    } else {
        if (encoding != ENC_PLAIN_DICTIONARY && encoding != ENC_RLE_DICTIONARY) return 0;
        if (!source) return 0;
        if (there) {
            if (p == end) return 0;
            width = *p++;
            if (!hybrid(p, end, width, indices, there)) return 0;
        }
    }
    uint32_t highest = 0;
    for (int64_t at = 0; at < there; at++) highest = indices[at] > highest ? indices[at] : highest;
    if (there && (int64_t)highest >= bound) return 0;
    return col->width ? emit_fixed(col, source, indices, levels, count, keep)
                      : emit_indexed(col, indices, levels, count, keep);
}
