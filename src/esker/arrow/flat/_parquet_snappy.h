/* Snappy: literals, and copies of what is already unpacked. */

/* ``size`` bytes at ``out``, which has room for PAD more. 0 if the input makes no sense. */
static int unpack_snappy(uint8_t *out, int64_t size, const uint8_t *p, const uint8_t *end) {
    Cursor c = {p, end};
    uint64_t length;
    if (!varint(&c, &length) || length != (uint64_t)size) return 0;
    uint8_t *to = out, *stop = out + size;
    p = c.p;
    while (p < end) {
        uint32_t tag = *p++;
        int64_t run = (tag >> 2) + 1, back;
        if (!(tag & 3)) {
            if (run <= PAD && end - p >= PAD && stop - to >= run) {
                memcpy(to, p, PAD);
                to += run;
                p += run;
                continue;
            }
            if (run > 60) {
                int bytes = (int)run - 60;
                if (end - p < bytes) return 0;
                run = 1;
                for (int at = 0; at < bytes; at++) run += (int64_t)p[at] << 8 * at;
                p += bytes;
            }
            if (run > end - p || run > stop - to) return 0;
            memcpy(to, p, (size_t)run);
            to += run;
            p += run;
            continue;
        }
        int bytes = (tag & 3) == 3 ? 4 : (int)(tag & 3);
        if (end - p < bytes) return 0;
        if (bytes == 1) {
            run = (tag >> 2 & 7) + 4;
            back = (int64_t)(tag >> 5) << 8 | p[0];
        } else {
            back = bytes == 2 ? (int64_t)p[0] | (int64_t)p[1] << 8 : (int64_t)u32(p);
        }
        p += bytes;
        if (!back || back > to - out || run > stop - to) return 0;
        const uint8_t *from = to - back;
        if (back >= PAD) {
            for (int64_t at = 0; at < run; at += PAD) memcpy(to + at, from + at, PAD);
        } else if (back >= 8) {
            for (int64_t at = 0; at < run; at += 8) memcpy(to + at, from + at, 8);
        } else {
            for (int64_t at = 0; at < run; at++) to[at] = from[at];
        }
        to += run;
    }
    return to == stop;
}
