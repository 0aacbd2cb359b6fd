/* Raw deflate (RFC 1951) to a buffer, for _shred_blocks.h. Blocks of manifests are small, so the tables are small and
 * quick to build. Every read is checked against the end of the input, every write against the room of the output.
 *
 * The answer is 1, or 0 for anything unusual: a stream that is cut, wrong or too large, or a code that is not complete.
 * The caller then leaves the block to zlib, whose answer counts. So what is refused here costs time, and no rows. */

#define LIT_ROOT 9
#define DIST_ROOT 6
#define LEN_ROOT 7
#define LIT_ROOM 854 /* the most that a complete code of 288 symbols and 15 bits needs with this root */
#define DIST_ROOM 594
#define SLACK 320 /* a match and one copy of eight bytes may go so far past the checked room */

enum { LITERAL, LENGTH_OR_DISTANCE, END, LINK, INVALID };

typedef struct {
    uint16_t value;
    uint8_t bits;
    uint8_t kind : 4, extra : 4;
} Code;

typedef struct {
    const uint8_t *in, *end;
    uint64_t hold; /* bits above `have` may be those of the bytes that follow: to add them again changes nothing */
    int have;
} Bits;

static const uint16_t LENGTHS[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                     31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t LENGTH_BITS[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                        2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t DISTANCES[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                       193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t DISTANCE_BITS[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                          6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

static inline void refill(Bits *b) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (b->end - b->in >= 8) {
        uint64_t word;
        memcpy(&word, b->in, 8);
        b->hold |= word << b->have;
        b->in += (63 - b->have) >> 3;
        b->have |= 56;
        return;
    }
#endif
    while (b->have <= 55 && b->in < b->end) {
        b->hold |= (uint64_t)*b->in++ << b->have;
        b->have += 8;
    }
}

static inline unsigned peek(const Bits *b, int count) { return (unsigned)(b->hold & ((UINT64_C(1) << count) - 1)); }

static inline void drop(Bits *b, int count) {
    b->hold >>= count;
    b->have -= count;
}

/* The symbol's entry, by the alphabet: 'L' literals and lengths, 'D' distances, 'C' lengths of codes. */
static Code code_of(int symbol, char alphabet) {
    if (alphabet == 'C' || (alphabet == 'L' && symbol < 256)) return (Code){.value = (uint16_t)symbol, .kind = LITERAL};
    if (alphabet == 'L' && symbol == 256) return (Code){.kind = END};
    if (alphabet == 'L' && symbol < 286)
        return (Code){.value = LENGTHS[symbol - 257], .kind = LENGTH_OR_DISTANCE, .extra = LENGTH_BITS[symbol - 257]};
    if (alphabet == 'D' && symbol < 30)
        return (Code){.value = DISTANCES[symbol], .kind = LENGTH_OR_DISTANCE, .extra = DISTANCE_BITS[symbol]};
    return (Code){.kind = INVALID};
}

/* The symbols with a code, by length and then by number. 0 unless the code is complete, or of one distance or none. */
static int sort_symbols(const uint8_t *lengths, int n, char alphabet, uint16_t *count, uint16_t *sorted) {
    uint16_t start[17] = {0};
    int left = 1;
    memset(count, 0, 16 * sizeof(*count));
    for (int i = 0; i < n; i++) count[lengths[i]]++;
    for (int bits = 1; bits < 16; bits++) {
        start[bits + 1] = (uint16_t)(start[bits] + count[bits]);
        left = left * 2 - count[bits];
        if (left < 0) return 0;
    }
    int few = alphabet == 'D' && (start[16] == 0 || (start[16] == 1 && count[1] == 1));
    if (left > 0 && !few) return 0;
    for (int i = 0; i < n; i++)
        if (lengths[i]) sorted[start[lengths[i]]++] = (uint16_t)i;
    return 1;
}

/* The table of the codes that are longer than the root and begin with the same bits. Its place is left in `*sub`. */
static int open_subtable(Code *table, int room, int root, unsigned low, int bits, const uint16_t *count, int *used, int *sub) {
    int sub_bits = bits - root;
    for (int left = 1 << sub_bits; sub_bits + root < 15; left *= 2, sub_bits++)
        if ((left -= count[sub_bits + root]) <= 0) break;
    *sub = *used;
    *used += 1 << sub_bits;
    if (*used > room) return 0;
    table[low] = (Code){.value = (uint16_t)*sub, .kind = LINK, .bits = (uint8_t)root, .extra = (uint8_t)sub_bits & 15};
    return sub_bits;
}

/* A table of 1 << root entries, and behind them the tables of longer codes, which LINK entries name. It is built for
 * one bit, then doubled for each further one: a short code is written once and copied. */
static int build_table(Code *table, int room, int root, const uint8_t *lengths, int n, char alphabet) {
    uint16_t count[16], sorted[320];
    if (!sort_symbols(lengths, n, alphabet, count, sorted)) return 0;
    int used = 1 << root, next = 0, sub = 0, sub_bits = 0;
    unsigned reversed = 0, low = UINT32_MAX;
    table[0] = (Code){.kind = INVALID};
    for (int bits = 1; bits < 16; bits++) {
        if (bits <= root) memcpy(table + (1 << (bits - 1)), table, sizeof(Code) << (bits - 1));
        for (; count[bits]; count[bits]--) {
            Code code = code_of(sorted[next++], alphabet);
            if (bits <= root) {
                code.bits = (uint8_t)bits;
                table[reversed] = code;
            } else {
                if ((reversed & ((1u << root) - 1)) != low) {
                    low = reversed & ((1u << root) - 1);
                    sub_bits = open_subtable(table, room, root, low, bits, count, &used, &sub);
                    if (!sub_bits) return 0;
                }
                code.bits = (uint8_t)(bits - root);
                for (unsigned at = reversed >> root; at < 1u << sub_bits; at += 1u << (bits - root)) table[sub + (int)at] = code;
            }
            unsigned bit = 1u << (bits - 1);
            while (reversed & bit) bit >>= 1;
            reversed = bit ? (reversed & (bit - 1)) + bit : 0;
        }
    }
    return 1;
}

static inline int read_code(Bits *b, const Code *table, int root, Code *out) {
    Code code = table[peek(b, root)];
    if (code.kind == LINK) {
        if (b->have < root) return 0;
        drop(b, root);
        code = table[code.value + (int)peek(b, code.extra)];
    }
    if (code.kind == INVALID || code.bits > b->have) return 0;
    drop(b, code.bits);
    *out = code;
    return 1;
}

static inline int read_extra(Bits *b, Code code, unsigned *out) {
    if (code.extra > b->have) return 0;
    *out = code.value + peek(b, code.extra);
    drop(b, code.extra);
    return 1;
}

/* The lengths of the codes of a dynamic block: 1, or 0 if they are wrong. */
static int read_lengths(Bits *b, uint8_t *lengths, int *literals, int *distances) {
    static const uint8_t ORDER[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t few[19] = {0};
    Code table[1 << LEN_ROOT];
    refill(b);
    if (b->have < 14) return 0;
    *literals = (int)peek(b, 5) + 257;
    drop(b, 5);
    *distances = (int)peek(b, 5) + 1;
    drop(b, 5);
    int codes = (int)peek(b, 4) + 4;
    drop(b, 4);
    if (*literals > 286 || *distances > 30) return 0;
    for (int i = 0; i < codes; i++) {
        refill(b);
        if (b->have < 3) return 0;
        few[ORDER[i]] = (uint8_t)peek(b, 3);
        drop(b, 3);
    }
    if (!build_table(table, 1 << LEN_ROOT, LEN_ROOT, few, 19, 'C')) return 0;
    for (int at = 0; at < *literals + *distances;) {
        Code code;
        refill(b);
        if (!read_code(b, table, LEN_ROOT, &code)) return 0;
        if (code.value < 16) {
            lengths[at++] = (uint8_t)code.value;
            continue;
        }
        int bits = code.value == 16 ? 2 : code.value == 17 ? 3 : 7;
        if (b->have < bits || (code.value == 16 && !at)) return 0;
        int times = (code.value == 18 ? 11 : 3) + (int)peek(b, bits);
        drop(b, bits);
        if (times > *literals + *distances - at) return 0;
        memset(lengths + at, code.value == 16 ? lengths[at - 1] : 0, (size_t)times);
        at += times;
    }
    return lengths[256] != 0;
}

/* Room for one more match and its slack. 0 past the limit, or without memory. */
static int make_room(Buf *out, size_t limit) {
    if (out->used > limit) return 0;
    if (out->room - out->used >= SLACK) return 1;
    size_t room = out->room * 2 + SLACK;
    if (room > limit + 2 * SLACK) room = limit + 2 * SLACK;
    uint8_t *at = realloc(out->at, room);
    if (!at) return 0;
    out->at = at;
    out->room = room;
    return 1;
}

static int inflate_codes(Bits *b, const Code *literals, const Code *distances, Buf *out, size_t limit) {
    for (;;) {
        Code code;
        unsigned length, distance;
        if (b->have < 48) refill(b); /* 15 and 5 bits of a length, 15 and 13 of its distance */
        if (!make_room(out, limit) || !read_code(b, literals, LIT_ROOT, &code)) return 0;
        if (code.kind == LITERAL) {
            out->at[out->used++] = (uint8_t)code.value;
            continue;
        }
        if (code.kind == END) return 1;
        if (!read_extra(b, code, &length) || !read_code(b, distances, DIST_ROOT, &code)) return 0;
        if (!read_extra(b, code, &distance) || distance > out->used) return 0;
        uint8_t *to = out->at + out->used;
        const uint8_t *from = to - distance;
        if (distance >= 8)
            for (unsigned done = 0; done < length; done += 8) memcpy(to + done, from + done, 8);
        else
            for (unsigned done = 0; done < length; done++) to[done] = from[done];
        out->used += length;
    }
}

static int inflate_stored(Bits *b, Buf *out, size_t limit) {
    drop(b, b->have & 7);
    refill(b);
    if (b->have < 32) return 0;
    unsigned length = peek(b, 16), complement = (unsigned)(b->hold >> 16) & 0xFFFF;
    drop(b, 32);
    b->in -= b->have >> 3; /* whole bytes that were read ahead */
    b->hold = 0;
    b->have = 0;
    if ((length ^ complement) != 0xFFFF || length > (size_t)(b->end - b->in)) return 0;
    for (unsigned done = 0; done < length;) {
        unsigned piece = length - done < 256 ? length - done : 256;
        if (!make_room(out, limit)) return 0;
        memcpy(out->at + out->used, b->in + done, piece);
        out->used += piece;
        done += piece;
    }
    b->in += length;
    return 1;
}

/* The whole stream into `out`, from its start. Bytes after the stream are ignored: some writers leave a part of zlib's
 * checksum there. */
static int inflate_raw(const uint8_t *data, size_t size, Buf *out, size_t limit) {
    Bits b = {.in = data, .end = data + size};
    Code literals[LIT_ROOM], distances[DIST_ROOM];
    uint8_t lengths[320];
    out->used = 0;
    for (int last = 0; !last;) {
        int n_literals = 288, n_distances = 30;
        refill(&b);
        if (b.have < 3) return 0;
        last = (int)peek(&b, 1);
        drop(&b, 1);
        int kind = (int)peek(&b, 2);
        drop(&b, 2);
        if (kind == 0) {
            if (!inflate_stored(&b, out, limit)) return 0;
            continue;
        }
        if (kind == 1) {
            for (int i = 0; i < 288; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
            memset(lengths + 288, 5, 32);
            n_distances = 32;
        } else if (kind == 3 || !read_lengths(&b, lengths, &n_literals, &n_distances)) {
            return 0;
        }
        if (!build_table(literals, LIT_ROOM, LIT_ROOT, lengths, n_literals, 'L')) return 0;
        if (!build_table(distances, DIST_ROOM, DIST_ROOT, lengths + n_literals, n_distances, 'D')) return 0;
        if (!inflate_codes(&b, literals, distances, out, limit)) return 0;
    }
    return out->used <= limit;
}
