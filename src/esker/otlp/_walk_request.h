/* Part of _walk.c: the messages of a request in JSON, by the program. */

static int put_any(Walker *w, Json *j, int number, int depth);

/* ---- attributes ---- */

/* The members of an object, one at a time: 1 and the key; 0 at its end; -1 for what is no object. */
static int next_member(Walker *w, Json *j, int *first, const uint8_t **key, size_t *size, int *err) {
    *err = OK;
    if (*first ? close_with(j, '}') : !next_is(j, ',')) {
        if (!*first && !close_with(j, '}')) *err = SYNTAX;
        return 0;
    }
    *first = 0;
    *err = read_string(w, j, key, size);
    if (*err == VALUE) *err = SYNTAX;
    if (!*err && !next_is(j, ':')) *err = SYNTAX;
    return !*err;
}

static int key_is(const uint8_t *key, size_t size, const char *name) {
    return size == strlen(name) && !memcmp(key, name, size);
}

static int put_text(Walker *w, Json *j, int number, int depth) {
    const uint8_t *at;
    size_t size;
    int err = read_string(w, j, &at, &size);
    (void)depth;
    return err ? err : put_bytes(w, number, at, size);
}

static int put_pair(Walker *w, Json *j, int number, int depth) {
    const uint8_t *key;
    size_t size, start;
    int first = 1, err;
    if ((err = open_with(j, '{'))) return err;
    if ((err = begin_message(w, number, &start))) return err;
    while (next_member(w, j, &first, &key, &size, &err)) {
        if (key_is(key, size, "keyStrindex")) return INDEX;
        const int is_key = key_is(key, size, "key"), is_value = key_is(key, size, "value");
        if (peek(j) == 'n') err = word(j, "null");
        else if (is_key) err = put_text(w, j, 1, 0);
        else if (is_value) err = put_any(w, j, 2, depth);
        else {
            w->unknown++;
            err = skip_json(j);
        }
        if (err) return err;
    }
    return err ? err : end_message(w, start);
}

/* What stands in an array, each by the same rule. */
static int put_each(Walker *w, Json *j, int number, int depth, int (*put)(Walker *, Json *, int, int)) {
    int err;
    if ((err = open_with(j, '['))) return err;
    if (close_with(j, ']')) return OK;
    do {
        if ((err = put(w, j, number, depth))) return err;
    } while (next_is(j, ','));
    return close_with(j, ']') ? OK : SYNTAX;
}

static int put_values(Walker *w, Json *j, int kind, int depth) {
    const uint8_t *key;
    size_t size, start;
    int first = 1, err;
    if ((err = open_with(j, '{'))) return err;
    if ((err = begin_message(w, kind, &start))) return err;
    while (next_member(w, j, &first, &key, &size, &err)) {
        if (peek(j) == 'n') err = word(j, "null");
        else if (key_is(key, size, "values")) err = put_each(w, j, 1, depth, kind == V_ARRAY ? put_any : put_pair);
        else {
            w->unknown++;
            err = skip_json(j);
        }
        if (err) return err;
    }
    return err ? err : end_message(w, start);
}

static int put_member(Walker *w, Json *j, int kind, int depth) {
    const uint8_t *at;
    size_t size;
    uint64_t value;
    int err;
    switch (kind) {
    case V_BOOL:
        if ((err = read_bool(j, &value)) || (err = put_tag(w, kind, 0))) return err;
        return put_varint(w, value);
    case V_INT:
        if ((err = read_integer(w, j, INT64_MIN, INT64_MAX, &value)) || (err = put_tag(w, kind, 0))) return err;
        return put_varint(w, value);
    case V_DOUBLE:
        if ((err = read_double(w, j, &value)) || (err = put_tag(w, kind, 1))) return err;
        return put_fixed(w, value, 8);
    case V_STRING:
    case V_BYTES:
        if ((err = read_string(w, j, &at, &size))) return err;
        if (kind == V_BYTES && (err = decode_base64(w, &at, &size))) return err;
        return put_bytes(w, kind, at, size);
    default: return put_values(w, j, kind, depth + 1);
    }
}

static int put_any(Walker *w, Json *j, int number, int depth) {
    static const char *const NAMES[] = {"", "stringValue", "boolValue", "intValue", "doubleValue", "arrayValue",
                                        "kvlistValue", "bytesValue", "stringValueStrindex"};
    const uint8_t *key;
    size_t size, start;
    int first = 1, err;
    if (depth > MAX_NESTED) return DEEP;
    if ((err = open_with(j, '{'))) return err;
    if ((err = begin_message(w, number, &start))) return err;
    while (next_member(w, j, &first, &key, &size, &err)) {
        int kind = V_STRING;
        while (kind <= 8 && !key_is(key, size, NAMES[kind])) kind++;
        if (kind == 8) return INDEX;
        if (peek(j) == 'n') err = word(j, "null");
        else if (kind < 8) err = put_member(w, j, kind, depth);
        else {
            w->unknown++;
            err = skip_json(j);
        }
        if (err) return err;
    }
    return err ? err : end_message(w, start);
}

/* ---- messages ---- */

static int put_message(Walker *w, Json *j, int n, int depth);

static int put_number(Walker *w, Json *j, int n, int depth) {
    const Node *node = &w->nodes[n];
    uint64_t value;
    int err;
    (void)depth;
    switch (node->op) {
    case DOUBLE:
    case DOUBLES: err = read_double(w, j, &value); break;
    case SFIXED64: err = read_integer(w, j, INT64_MIN, INT64_MAX, &value); break;
    case FIXED64:
    case FIXED64S:
    case UINT64S: err = read_integer(w, j, 0, INT64_MAX, &value); break;
    case BOOL: err = read_bool(j, &value); break;
    default: err = read_integer(w, j, 0, UINT32_MAX, &value); /* FIXED32, UINT32 */
    }
    const int wire = node->op == UINT64S ? 0 : node->op == FIXED64S || node->op == DOUBLES ? 1 : wire_of(node->op);
    if (err || (err = put_tag(w, node->number, wire))) return err;
    return wire ? put_fixed(w, value, wire == 1 ? 8 : 4) : put_varint(w, value);
}

/* Levels above what was noted end where they end, which is known later. */
static void note_end(Walker *w, size_t from, int level, const uint8_t *end) {
    const int64_t place = end - w->base;
    while (from < w->bad.used) {
        int64_t depth;
        memcpy(&depth, w->bad.at + from + 8, 8);
        memcpy(w->bad.at + from + 16 + 24 * (size_t)level + 16, &place, 8);
        from += 16 + 24 * (size_t)depth;
    }
}

/* A row of a level: what is wrong inside is its own fault, unless the text itself cannot be read on. */
static int put_level(Walker *w, Json *j, int n, int depth) {
    const size_t start = w->out.used;
    const size_t noted = w->bad.used;
    const int64_t n_bad = w->n_bad, unknown = w->unknown;
    const int level = w->depth, levels = j->levels;
    const uint8_t *from = (peek(j), j->p);
    w->chain[w->depth++] = (Place){n, from, w->chain[0].end};
    int err = put_message(w, j, n, depth);
    if (err && err != SYNTAX && err != LEVELS && err != MEMORY && err != MANY) {
        w->out.used = start;
        w->bad.used = noted;
        w->n_bad = n_bad;
        w->unknown = unknown;
        w->depth = level + 1;
        j->p = from;
        j->levels = levels;
        const int reason = err;
        if (!(err = skip_json(j))) {
            w->chain[level].end = j->p;
            err = note(w, reason);
        }
    }
    if (!err) note_end(w, noted, level, j->p);
    w->depth = level;
    return err;
}

static int put_field(Walker *w, Json *j, int c, int depth) {
    const Node *node = &w->nodes[c];
    switch (node->op) {
    case LEVEL: return node->arg ? put_level(w, j, c, depth) : put_each(w, j, c, depth, put_level);
    case MESSAGE: return put_message(w, j, c, depth);
    case LIST: return put_each(w, j, c, depth, put_message);
    case ATTRIBUTES: return put_each(w, j, node->number, 0, put_pair);
    case ANY: return put_any(w, j, node->number, 0);
    case STRINGS: return put_each(w, j, node->number, 0, put_text);
    case STRING: return put_text(w, j, node->number, 0);
    case ID: return put_id(w, j, node);
    case INT32:
    case SINT32: return put_enum(w, j, node);
    case FIXED64S:
    case UINT64S:
    case DOUBLES: return put_each(w, j, c, 0, put_number);
    default: return put_number(w, j, c, 0);
    }
}

/* The field of that name; senders keep to the protocol's order, so the next one is tried first. */
static int field_named(const Walker *w, int n, int last, const uint8_t *key, size_t size) {
    const int end = w->nodes[n].next;
    for (int turn = 0, c = last ? w->nodes[last].next : n + 1; turn < 2; turn++, c = n + 1)
        for (; c < end; c = w->nodes[c].next)
            if (w->nodes[c].name_size == size && !memcmp(w->nodes[c].name, key, size)) return c;
    return 0;
}

static int put_message(Walker *w, Json *j, int n, int depth) {
    const uint8_t *key;
    size_t size, start = 0;
    int first = 1, last = 0, err = OK;
    if ((err = open_with(j, '{'))) return err;
    if (n && (err = begin_message(w, w->nodes[n].number, &start))) return err;
    while (next_member(w, j, &first, &key, &size, &err)) {
        int c = field_named(w, n, last, key, size);
        if (peek(j) == 'n') err = word(j, "null");
        else if (c) err = put_field(w, j, last = c, depth);
        else {
            w->unknown++;
            err = skip_json(j);
        }
        if (err) return err;
    }
    return err || !n ? err : end_message(w, start);
}

/* The whole request into w->out. What cannot be read at all is noted as the root's fault. */
static int put_request(Walker *w, const uint8_t *at, size_t size) {
    Json j = {at, at + size, 0};
    w->out.used = 0;
    w->chain[0] = (Place){0, at, at + size};
    w->depth = 1;
    int err = is_utf8(at, (int64_t)size) ? put_message(w, &j, 0, 0) : TEXT;
    if (!err && (skip_space(&j), j.p != j.end)) err = SYNTAX;
    if (err == VALUE) { /* of no use as a request; but is it JSON? */
        j.p = at;
        j.levels = 0;
        const int found = skip_json(&j);
        if (found) err = found;
        else if (skip_space(&j), j.p != j.end) err = SYNTAX;
    }
    w->depth = 1;
    if (err) {
        w->bad.used = 0;
        w->n_bad = 0;
        w->unknown = w->unknown_before;
        return note(w, err) ? err : SYNTAX;
    }
    w->depth = 0;
    return OK;
}
