/* Part of _walk.c: values of attributes and bodies as text. */

enum { NOTHING, V_STRING, V_BOOL, V_INT, V_DOUBLE, V_ARRAY, V_KVLIST, V_BYTES };
static const char *const KINDS[] = {"", "string", "bool", "int", "double", "array", "kvlist", "bytes"};
static const int KIND_WIRES[] = {-1, 2, 0, 0, 1, 2, 2, 2};

/* ---- finding ---- */

/* What an AnyValue holds: the last that was set. */
static int find_value(Walker *w, const uint8_t *p, const uint8_t *end, int *kind, Field *value) {
    *kind = NOTHING;
    while (p < end) {
        Field f;
        int err = read_field(&p, end, &f);
        if (err) return err;
        if (f.number == 8 && f.wire == 0) return INDEX;
        if (f.number > V_BYTES || f.wire != KIND_WIRES[f.number]) {
            w->unknown++;
            continue;
        }
        if (f.number == V_STRING && !is_utf8(f.at, (int64_t)f.value)) return TEXT;
        *kind = f.number;
        *value = f;
    }
    return OK;
}

static int push_entry(Walker *w, Entries *entries, Entry entry) {
    if (entries->used == entries->room) {
        size_t room = entries->room ? entries->room * 2 : 32;
        if (room * sizeof(Entry) > (size_t)w->limit) return FULL;
        Entry *at = realloc(entries->at, room * sizeof(Entry));
        if (!at) return MEMORY;
        entries->at = at;
        entries->room = room;
    }
    entries->at[entries->used++] = entry;
    return OK;
}

static int read_entry(Walker *w, Entries *entries, const uint8_t *p, const uint8_t *end) {
    Entry entry = {.key = p};
    while (p < end) {
        Field f;
        int err = read_field(&p, end, &f);
        if (err) return err;
        if (f.number == 3 && f.wire == 0) return INDEX;
        if (f.number > 2 || f.wire != 2) {
            w->unknown++;
        } else if (f.number == 2) {
            entry.value = f.at;
            entry.size = (int64_t)f.value;
        } else {
            if (!is_utf8(f.at, (int64_t)f.value)) return TEXT;
            entry.key = f.at;
            entry.key_size = (int64_t)f.value;
        }
    }
    return push_entry(w, entries, entry);
}

static int compare_keys(const Entry *a, const Entry *b) {
    if (a->key_size != b->key_size) return a->key_size < b->key_size ? -1 : 1;
    return a->key_size ? memcmp(a->key, b->key, (size_t)a->key_size) : 0;
}

static int compare_places(const void *one, const void *other) {
    const Entry *a = *(const Entry *const *)one, *b = *(const Entry *const *)other;
    int by_key = compare_keys(a, b);
    return by_key ? by_key : (a > b) - (a < b);
}

/* Of a key sent again, the last value counts, in the first one's place; what goes has no key. */
static int drop_repeated(Walker *w, Entry *at, size_t count) {
    if (count <= FEW) {
        for (size_t i = 1; i < count; i++)
            for (size_t j = 0; j < i; j++) {
                if (!at[j].key || compare_keys(&at[i], &at[j])) continue;
                at[j].value = at[i].value;
                at[j].size = at[i].size;
                at[i].key = NULL;
                w->repeated++;
                break;
            }
        return OK;
    }
    Entry **sorted = malloc(count * sizeof(*sorted));
    if (!sorted) return MEMORY;
    for (size_t i = 0; i < count; i++) sorted[i] = &at[i];
    qsort(sorted, count, sizeof(*sorted), compare_places);
    Entry *first = sorted[0];
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(first, sorted[i])) {
            first = sorted[i];
            continue;
        }
        first->value = sorted[i]->value;
        first->size = sorted[i]->size;
        sorted[i]->key = NULL;
        w->repeated++;
    }
    free(sorted);
    return OK;
}

/* ---- writing ---- */

static int write_integer(Walker *w, Buf *to, int64_t number) {
    char digits[24];
    int at = 24;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) digits[--at] = '-';
    return append(w, to, digits + at, (size_t)(24 - at));
}

static int write_text(Walker *w, Buf *to, const char *text) { return append(w, to, text, strlen(text)); }

/* As Python's repr: the shortest that reads back as the same, with a fraction or an exponent. */
static int write_double(Walker *w, Buf *to, uint64_t bits, int nested) {
    double number;
    memcpy(&number, &bits, 8);
    if (isnan(number) || isinf(number)) {
        const char *name = isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity";
        int err = nested ? write_text(w, to, "{\"$double\":\"") : OK;
        if (!err) err = write_text(w, to, name);
        return err || !nested ? err : write_text(w, to, "\"}");
    }
    if (fabs(number) < 1e9 && number == (double)(int32_t)number && bits != UINT64_C(1) << 63) {
        int err = write_integer(w, to, (int32_t)number);
        return err ? err : write_text(w, to, ".0");
    }
    char *text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (!text) {
        PyErr_Clear();
        return MEMORY;
    }
    int err = write_text(w, to, text);
    PyMem_Free(text);
    return err;
}

static int write_base64(Walker *w, Buf *to, const uint8_t *p, size_t size) {
    static const char SIGNS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t have = size - i < 3 ? size - i : 3;
        uint32_t three = (uint32_t)p[i] << 16 | (have > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (have > 2 ? p[i + 2] : 0);
        char four[4] = {SIGNS[three >> 18], SIGNS[three >> 12 & 63], have > 1 ? SIGNS[three >> 6 & 63] : '=',
                        have > 2 ? SIGNS[three & 63] : '='};
        int err = append(w, to, four, 4);
        if (err) return err;
    }
    return OK;
}

static int write_quoted(Walker *w, Buf *to, const uint8_t *p, int64_t size) {
    static const char HEX[] = "0123456789abcdef";
    const uint8_t *end = p + size, *start = p;
    int err = append_byte(w, to, '"');
    for (; p < end && !err; p++) {
        if (*p >= 0x20 && *p != '"' && *p != '\\') continue;
        char escape[6] = {'\\', (char)*p, '0', '0', 0, 0};
        size_t length = 2;
        switch (*p) {
        case '"':
        case '\\': break;
        case '\n': escape[1] = 'n'; break;
        case '\r': escape[1] = 'r'; break;
        case '\t': escape[1] = 't'; break;
        case '\b': escape[1] = 'b'; break;
        case '\f': escape[1] = 'f'; break;
        default:
            escape[1] = 'u';
            escape[4] = HEX[*p >> 4];
            escape[5] = HEX[*p & 15];
            length = 6;
        }
        if ((err = append(w, to, start, (size_t)(p - start)))) return err;
        err = append(w, to, escape, length);
        start = p + 1;
    }
    if (!err) err = append(w, to, start, (size_t)(p - start));
    return err ? err : append_byte(w, to, '"');
}

static int write_nested(Walker *w, Buf *to, const uint8_t *p, const uint8_t *end, int depth);

static int write_array(Walker *w, Buf *to, const Field *value, int depth) {
    const uint8_t *p = value->at, *end = p + value->value;
    int some = 0, err = append_byte(w, to, '[');
    while (p < end && !err) {
        Field f;
        if ((err = read_field(&p, end, &f))) return err;
        if (f.number != 1 || f.wire != 2) {
            w->unknown++;
            continue;
        }
        if (some++ && (err = append_byte(w, to, ','))) return err;
        err = write_nested(w, to, f.at, f.at + f.value, depth + 1);
    }
    return err ? err : append_byte(w, to, ']');
}

static int write_kvlist(Walker *w, Buf *to, const Field *value, int depth) {
    const uint8_t *p = value->at, *end = p + value->value;
    const size_t base = w->nested.used; /* lists nest, so their entries are stacked */
    int some = 0, err = OK;
    while (p < end && !err) {
        Field f;
        if ((err = read_field(&p, end, &f))) return err;
        if (f.number == 1 && f.wire == 2) err = read_entry(w, &w->nested, f.at, f.at + f.value);
        else w->unknown++;
    }
    const size_t top = w->nested.used;
    if (!err && top > base) err = drop_repeated(w, w->nested.at + base, top - base);
    if (!err) err = append_byte(w, to, '{');
    for (size_t i = base; i < top && !err; i++) {
        const Entry entry = w->nested.at[i]; /* a copy: the stack may move */
        if (!entry.key) continue;
        if (some++ && (err = append_byte(w, to, ','))) break;
        if ((err = write_quoted(w, to, entry.key, entry.key_size)) || (err = append_byte(w, to, ':'))) break;
        err = entry.value ? write_nested(w, to, entry.value, entry.value + entry.size, depth + 1)
                          : write_text(w, to, "null");
    }
    w->nested.used = base;
    return err ? err : append_byte(w, to, '}');
}

/* A value as it stands alone, or inside an array or a list of pairs, as JSON. */
static int write_value(Walker *w, Buf *to, int kind, const Field *value, int nested, int depth) {
    int err;
    switch (kind) {
    case V_STRING:
        return nested ? write_quoted(w, to, value->at, (int64_t)value->value)
                      : append(w, to, value->at, (size_t)value->value);
    case V_BOOL: return write_text(w, to, value->value ? "true" : "false");
    case V_INT: return write_integer(w, to, (int64_t)value->value);
    case V_DOUBLE: return write_double(w, to, value->value, nested);
    case V_ARRAY: return write_array(w, to, value, depth);
    case V_KVLIST: return write_kvlist(w, to, value, depth);
    case V_BYTES:
        if (nested && (err = write_text(w, to, "{\"$bytes\":\""))) return err;
        if ((err = write_base64(w, to, value->at, (size_t)value->value))) return err;
        return nested ? write_text(w, to, "\"}") : OK;
    default: return write_text(w, to, "null");
    }
}

static int write_nested(Walker *w, Buf *to, const uint8_t *p, const uint8_t *end, int depth) {
    int kind;
    Field value;
    if (depth > MAX_NESTED) return DEEP;
    int err = find_value(w, p, end, &kind, &value);
    return err ? err : write_value(w, to, kind, &value, 1, depth);
}

/* One value into a slot, and what kind it was; nothing becomes null. */
static int keep_value(Walker *w, Slot *slot, const uint8_t *at, int64_t size, int *kind) {
    Field value;
    *kind = NOTHING;
    int err = at ? find_value(w, at, at + size, kind, &value) : OK;
    if (!err && *kind) err = write_value(w, &slot->data, *kind, &value, 0, 0);
    return err ? err : close_offset(w, slot, (int64_t)slot->data.used, *kind != NOTHING);
}
