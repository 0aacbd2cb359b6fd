/* Raw deflate (RFC 1951) to a buffer, for _shred_blocks.h. Blocks of manifests are often small, so the tables of a small
 * stream are small and quick to build. Every read is checked against the end of the input, every write against the room
 * of the output: symbol by symbol near their ends, once for a few symbols elsewhere.
 *
 * The answer is 1, or 0 for anything unusual: a stream that is cut, wrong or too large, or a code that is not complete.
 * The caller then leaves the block to zlib, whose answer counts. So what is refused here costs time, and no rows. */

#define LEN_ROOT 7
/* The most entries that a complete code of 15 bits needs: 288 symbols behind 9 or 11 bits, 32 behind 6 or 8. */
#define LIT_ROOM 2342
#define DIST_ROOM 594
#define LENGTHS_ROOM 336 /* 288 and 32 lengths, which are written up to 16 at a time */
#define SMALL 8192   /* bytes of a stream for which small tables are better */
#define SLACK 320    /* three literals, a match and copies of 16 bytes may go so far past the checked room */
#define READ_AHEAD 16 /* the bytes that the input has for a turn of the quick loop: two refills, which move by up to 7 */

/* An entry of a table: a value above bit 16, the bits of the code from bit 8 on, and below these the bits of the code and
 * of the number that follows it. A literal has the top bit. What ends the usual way has IS_RARE and says what it is;
 * without more it is a code that does not exist. IS_LINK has the place of a second table, and its bits from bit 8 on. */
typedef uint32_t Code;
#define IS_LITERAL 0x80000000u
#define IS_RARE 0x8000u
#define IS_LINK 0x4000u
#define IS_END 0x2000u
#define VALUE(code) ((code) >> 16 & 0x7FFFu)
#define ALL_BITS(code) ((int)((code) & 63u))
#define CODE_BITS(code) ((int)((code) >> 8 & 15u))

typedef struct {
    const uint8_t *in, *end;
    uint64_t hold; /* bits above `have` may be those of the bytes that follow: to add them again changes nothing */
    int have;
} Bits;

typedef struct {
    int literal_root, distance_root;
    Code literals[LIT_ROOM], distances[DIST_ROOM];
} Tables;

/* What each symbol means, without the bits of its code. */
#define OF(value, extra) ((uint32_t)(value) << 16 | (extra))
#define LITERAL(n) (IS_LITERAL | (uint32_t)(n) << 16)
#define LITERALS_4(n) LITERAL(n), LITERAL((n) + 1), LITERAL((n) + 2), LITERAL((n) + 3)
#define LITERALS_16(n) LITERALS_4(n), LITERALS_4((n) + 4), LITERALS_4((n) + 8), LITERALS_4((n) + 12)
#define LITERALS_64(n) LITERALS_16(n), LITERALS_16((n) + 16), LITERALS_16((n) + 32), LITERALS_16((n) + 48)
static const Code LITERALS_AND_LENGTHS[288] = {
    LITERALS_64(0), LITERALS_64(64), LITERALS_64(128), LITERALS_64(192), IS_RARE | IS_END,
    OF(3, 0), OF(4, 0), OF(5, 0), OF(6, 0), OF(7, 0), OF(8, 0), OF(9, 0), OF(10, 0), OF(11, 1), OF(13, 1), OF(15, 1),
    OF(17, 1), OF(19, 2), OF(23, 2), OF(27, 2), OF(31, 2), OF(35, 3), OF(43, 3), OF(51, 3), OF(59, 3), OF(67, 4),
    OF(83, 4), OF(99, 4), OF(115, 4), OF(131, 5), OF(163, 5), OF(195, 5), OF(227, 5), OF(258, 0), IS_RARE, IS_RARE};
static const Code DISTANCES[32] = {
    OF(1, 0), OF(2, 0), OF(3, 0), OF(4, 0), OF(5, 1), OF(7, 1), OF(9, 2), OF(13, 2), OF(17, 3), OF(25, 3), OF(33, 4),
    OF(49, 4), OF(65, 5), OF(97, 5), OF(129, 6), OF(193, 6), OF(257, 7), OF(385, 7), OF(513, 8), OF(769, 8),
    OF(1025, 9), OF(1537, 9), OF(2049, 10), OF(3073, 10), OF(4097, 11), OF(6145, 11), OF(8193, 12), OF(12289, 12),
    OF(16385, 13), OF(24577, 13), IS_RARE, IS_RARE};
/* A length, or how often the last one or zero is repeated. */
#define REPEAT 0x100
#define REPEAT_ZERO 0x300
static const Code LENGTHS_OF_CODES[19] = {
    OF(0, 0), OF(1, 0), OF(2, 0), OF(3, 0), OF(4, 0), OF(5, 0), OF(6, 0), OF(7, 0), OF(8, 0), OF(9, 0), OF(10, 0),
    OF(11, 0), OF(12, 0), OF(13, 0), OF(14, 0), OF(15, 0), OF(REPEAT + 3, 2), OF(REPEAT_ZERO + 3, 3),
    OF(REPEAT_ZERO + 11, 7)};

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define READS_WORDS 1
/* At least 56 bits. There must be 8 bytes to read. */
static inline void refill_word(Bits *b) {
    uint64_t word;
    memcpy(&word, b->in, 8);
    b->hold |= word << b->have;
    b->in += (63 - b->have) >> 3;
    b->have |= 56;
}
#endif

static inline void refill(Bits *b) {
#ifdef READS_WORDS
    if (b->end - b->in >= 8) {
        refill_word(b);
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

/* ---- tables ---- */

/* The symbols with a code, by length and then by number. 0 unless the code is complete, or of one distance or none. */
static int sort_symbols(const uint8_t *lengths, int n, int may_be_few, uint16_t *count, uint16_t *sorted) {
    uint16_t start[17] = {0};
    int left = 1;
    memset(count, 0, 16 * sizeof(*count));
    for (int i = 0; i < n; i++) count[lengths[i]]++;
    for (int bits = 1; bits < 16; bits++) {
        start[bits + 1] = (uint16_t)(start[bits] + count[bits]);
        left = left * 2 - count[bits];
        if (left < 0) return 0;
    }
    int few = may_be_few && (start[16] == 0 || (start[16] == 1 && count[1] == 1));
    if (left > 0 && !few) return 0;
    start[0] = start[16]; /* symbols without a code go behind the others: no branch */
    for (int i = 0; i < n; i++) sorted[start[lengths[i]]++] = (uint16_t)i;
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
    table[low] = IS_RARE | IS_LINK | (Code)*sub << 16 | (Code)sub_bits << 8 | (Code)root;
    return sub_bits;
}

/* A table of 1 << root entries, and behind them the tables of longer codes, which links name. It is built for one bit,
 * then doubled for each further one: a short code is written once and copied. */
static int build_table(Code *table, int room, int root, const uint8_t *lengths, int n, const Code *meanings) {
    uint16_t count[16], sorted[320];
    if (!sort_symbols(lengths, n, meanings == DISTANCES, count, sorted)) return 0;
    int used = 1 << root, next = 0, sub = 0, sub_bits = 0;
    unsigned reversed = 0, low = UINT32_MAX;
    table[0] = IS_RARE;
    for (int bits = 1; bits < 16; bits++) {
        if (bits <= root) memcpy(table + (1 << (bits - 1)), table, sizeof(Code) << (bits - 1));
        for (; count[bits]; count[bits]--) {
            Code code = meanings[sorted[next++]];
            if (bits <= root) {
                table[reversed] = code + (Code)bits * 0x101u;
            } else {
                if ((reversed & ((1u << root) - 1)) != low) {
                    low = reversed & ((1u << root) - 1);
                    sub_bits = open_subtable(table, room, root, low, bits, count, &used, &sub);
                    if (!sub_bits) return 0;
                }
                code += (Code)(bits - root) * 0x101u;
                for (unsigned at = reversed >> root; at < 1u << sub_bits; at += 1u << (bits - root)) table[sub + (int)at] = code;
            }
            unsigned bit = 1u << (bits - 1);
            while (reversed & bit) bit >>= 1;
            reversed = bit ? (reversed & (bit - 1)) + bit : 0;
        }
    }
    return 1;
}

/* The next symbol and the number after its code. 0 if there is no such code, or too few bits. */
static inline int read_code(Bits *b, const Code *table, int root, Code *out, unsigned *value) {
    Code code = table[peek(b, root)];
    if (code & IS_LINK) {
        if (b->have < root) return 0;
        drop(b, root);
        code = table[VALUE(code) + peek(b, CODE_BITS(code))];
    }
    if ((code & (IS_RARE | IS_END)) == IS_RARE || ALL_BITS(code) > b->have) return 0;
    *value = VALUE(code) + (peek(b, ALL_BITS(code)) >> CODE_BITS(code));
    drop(b, ALL_BITS(code));
    *out = code;
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
        if (b->have < 3) refill(b);
        if (b->have < 3) return 0;
        few[ORDER[i]] = (uint8_t)peek(b, 3);
        drop(b, 3);
    }
    if (!build_table(table, 1 << LEN_ROOT, LEN_ROOT, few, 19, LENGTHS_OF_CODES)) return 0;
    for (int at = 0; at < *literals + *distances;) {
        Code code;
        unsigned value;
        if (b->have < 14) refill(b); /* 7 bits of a code, 7 of how often */
        if (!read_code(b, table, LEN_ROOT, &code, &value)) return 0;
        if (value < REPEAT) {
            lengths[at++] = (uint8_t)value;
            continue;
        }
        int times = (int)(value & 0xFF), is_zero = value >= REPEAT_ZERO;
        if ((!is_zero && !at) || times > *literals + *distances - at) return 0;
        uint8_t again = is_zero ? 0 : lengths[at - 1];
        for (int done = 0; done < times; done += 16) memset(lengths + at + done, again, 16);
        at += times;
    }
    return lengths[256] != 0;
}

/* ---- symbols ---- */

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

/* A match of up to 258 bytes, and up to 15 bytes of no meaning behind it. */
static inline void copy_match(uint8_t *to, unsigned distance, unsigned length) {
    const uint8_t *from = to - distance;
    if (distance >= 16)
        for (unsigned done = 0; done < length; done += 16) memcpy(to + done, from + done, 16);
    else if (distance >= 8)
        for (unsigned done = 0; done < length; done += 8) memcpy(to + done, from + done, 8);
    else
        for (unsigned done = 0; done < length; done++) to[done] = from[done];
}

#ifdef READS_WORDS
/* Symbols while there is enough input and room for a turn without a check: 1 at the end of the block, 0 if it is wrong,
 * -1 if the rest needs the checks. */
static int inflate_quickly(Bits *bits, const Tables *t, Buf *out) {
    Bits b = *bits;
    uint8_t *to = out->at + out->used;
    const uint8_t *const full = out->at + out->room;
    const int root = t->literal_root;
    int answer = -1;
    while (b.end - b.in >= READ_AHEAD && full - to >= SLACK) {
        refill_word(&b);
        Code code = t->literals[peek(&b, root)];
        if (code & IS_LITERAL) { /* three literals of the first table take at most 33 of 56 bits */
            drop(&b, ALL_BITS(code));
            *to++ = (uint8_t)(code >> 16);
            code = t->literals[peek(&b, root)];
            if (code & IS_LITERAL) {
                drop(&b, ALL_BITS(code));
                *to++ = (uint8_t)(code >> 16);
                code = t->literals[peek(&b, root)];
                if (code & IS_LITERAL) {
                    drop(&b, ALL_BITS(code));
                    *to++ = (uint8_t)(code >> 16);
                    continue;
                }
            }
        }
        if (code & IS_LINK) {
            drop(&b, root);
            code = t->literals[VALUE(code) + peek(&b, CODE_BITS(code))];
        }
        unsigned value = VALUE(code) + (peek(&b, ALL_BITS(code)) >> CODE_BITS(code));
        drop(&b, ALL_BITS(code));
        if (code & IS_LITERAL) {
            *to++ = (uint8_t)(code >> 16);
            continue;
        }
        if (code & IS_RARE) {
            answer = code & IS_END ? 1 : 0;
            break;
        }
        refill_word(&b);
        code = t->distances[peek(&b, t->distance_root)];
        if (code & IS_LINK) {
            drop(&b, t->distance_root);
            code = t->distances[VALUE(code) + peek(&b, CODE_BITS(code))];
        }
        unsigned distance = VALUE(code) + (peek(&b, ALL_BITS(code)) >> CODE_BITS(code));
        drop(&b, ALL_BITS(code));
        if ((code & IS_RARE) || distance > (size_t)(to - out->at)) {
            answer = 0;
            break;
        }
        copy_match(to, distance, value);
        to += value;
    }
    out->used = (size_t)(to - out->at);
    *bits = b;
    return answer;
}
#endif

static int inflate_codes(Bits *b, const Tables *t, Buf *out, size_t limit) {
    for (;;) {
        Code code;
        unsigned value, distance;
        if (!make_room(out, limit)) return 0;
#ifdef READS_WORDS
        int answer = inflate_quickly(b, t, out);
        if (answer >= 0) return answer;
        if (!make_room(out, limit)) return 0;
#endif
        if (b->have < 48) refill(b); /* 15 and 5 bits of a length, 15 and 13 of its distance */
        if (!read_code(b, t->literals, t->literal_root, &code, &value)) return 0;
        if (code & IS_LITERAL) {
            out->at[out->used++] = (uint8_t)(code >> 16);
            continue;
        }
        if (code & IS_END) return 1;
        if (!read_code(b, t->distances, t->distance_root, &code, &distance)) return 0;
        if (distance > out->used) return 0;
        copy_match(out->at + out->used, distance, value);
        out->used += value;
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
    Tables t; /* not set: 1 << root entries and the tables that links name are written by build_table */
    uint8_t lengths[LENGTHS_ROOM];
    t.literal_root = size < SMALL ? 9 : 11;
    t.distance_root = size < SMALL ? 6 : 8;
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
        if (!build_table(t.literals, LIT_ROOM, t.literal_root, lengths, n_literals, LITERALS_AND_LENGTHS)) return 0;
        if (!build_table(t.distances, DIST_ROOM, t.distance_root, lengths + n_literals, n_distances, DISTANCES)) return 0;
        if (!inflate_codes(&b, &t, out, limit)) return 0;
    }
    return out->used <= limit;
}
