/* Part of _walk.c: the fields of a row, gathered while its message is scanned and appended when it is closed. */

static inline void open_row(Walker *w, int n) {
    const int end = w->nodes[n].next;
    memset(w->cells + n + 1, 0, sizeof(Cell) * (size_t)(end - n - 1));
    for (int c = n + 1; c < end; c++) w->found[c].used = 0;
}

static int scan(Walker *w, int n, const uint8_t *p, const uint8_t *end);
static int close_row(Walker *w, int n, int present);

static int append_item(Walker *w, Slot *slot, uint64_t value) {
    int err = append(w, &slot->main, &value, 8);
    return err ? err : close_value(w, slot, 1);
}

/* Numbers of a list, packed or not. */
static int take_items(Walker *w, const Node *node, const Field *f) {
    Slot *items = &w->slots[node->slot + 1];
    const int varint = node->op == UINT64S, limited = node->op != DOUBLES;
    int err = OK;
    if (f->wire == (varint ? 0 : 1)) return limited && f->value >> 63 ? RANGE : append_item(w, items, f->value);
    const uint8_t *p = f->at, *end = p + f->value;
    if (!varint && f->value % 8) return CUT;
    while (p < end && !err) {
        uint64_t value;
        if (varint) {
            if ((err = read_varint(&p, end, &value))) return err;
        } else {
            value = little(p, 8);
            p += 8;
        }
        err = limited && value >> 63 ? RANGE : append_item(w, items, value);
    }
    return err;
}

static int take_message(Walker *w, int c, const Field *f) {
    const Node *node = &w->nodes[c];
    Slot *slot = &w->slots[node->slot];
    int err;
    switch (node->op) {
    case MESSAGE: return scan(w, c, f->at, f->at + f->value); /* sent twice, the two are merged */
    case LIST:
        open_row(w, c);
        if ((err = scan(w, c, f->at, f->at + f->value)) || (err = close_row(w, c, 1))) return err;
        slot->items++;
        return OK;
    case ATTRIBUTES: return read_entry(w, &w->found[c], f->at, f->at + f->value);
    case STRINGS:
        if (!is_utf8(f->at, (int64_t)f->value)) return TEXT;
        return close_text(w, slot + 1, f->at, (size_t)f->value, 1);
    case STRING: return is_utf8(f->at, (int64_t)f->value) ? OK : TEXT;
    case ID: return f->value && f->value != (uint64_t)node->arg ? LENGTH : OK;
    default: return OK; /* LEVEL: its turn comes later; ANY: written when the row is closed */
    }
}

static inline int wire_of(int op) {
    switch (op) {
    case FIXED64:
    case SFIXED64:
    case DOUBLE: return 1;
    case FIXED32: return 5;
    case UINT32:
    case INT32:
    case SINT32:
    case BOOL: return 0;
    default: return 2;
    }
}

static int take_field(Walker *w, int n, int c, const Field *f) {
    const Node *node = &w->nodes[c];
    Cell *cell = &w->cells[c];
    const int list = node->op == FIXED64S || node->op == UINT64S || node->op == DOUBLES;
    if (list && (f->wire == 2 || f->wire == (node->op == UINT64S ? 0 : 1))) return take_items(w, node, f);
    if (f->wire != wire_of(node->op)) { /* as every reader of the format: a field of another type is another field */
        w->unknown++;
        return OK;
    }
    if (node->oneof)
        for (int other = n + 1; other < w->nodes[n].next; other = w->nodes[other].next)
            if (w->nodes[other].oneof == node->oneof) w->cells[other] = (Cell){0};
    cell->seen = 1;
    switch (node->op) {
    case FIXED64:
        if (f->value >> 63) return RANGE;
        cell->value = (int64_t)f->value;
        return OK;
    case SFIXED64:
    case DOUBLE:
    case FIXED32: cell->value = (int64_t)f->value; return OK;
    case UINT32: cell->value = (int64_t)(uint32_t)f->value; return OK;
    case INT32: cell->value = (int32_t)(uint32_t)f->value; return OK;
    case SINT32: {
        uint32_t zigzag = (uint32_t)f->value;
        cell->value = (int32_t)(zigzag >> 1 ^ (0 - (zigzag & 1)));
        return OK;
    }
    case BOOL: cell->value = f->value != 0; return OK;
    default:
        cell->at = f->at;
        cell->value = (int64_t)f->value;
        return take_message(w, c, f);
    }
}

static int scan(Walker *w, int n, const uint8_t *p, const uint8_t *end) {
    const Node *node = &w->nodes[n];
    while (p < end) {
        Field f;
        int err = read_field(&p, end, &f);
        if (err) return err;
        int c = f.number < MAX_NUMBER ? node->kids[f.number] : 0;
        if (!c) w->unknown++;
        else if ((err = take_field(w, n, c, &f))) return err;
    }
    return OK;
}

/* The map of texts, and the map of what is not a string, which is null where all are. */
static int close_attributes(Walker *w, int c, int present) {
    Slot *slot = &w->slots[w->nodes[c].slot];
    Entries *found = &w->found[c];
    int typed = 0, err = found->used ? drop_repeated(w, found->at, found->used) : OK;
    for (size_t i = 0; i < found->used && !err; i++) {
        const Entry *entry = &found->at[i];
        int kind;
        if (!entry->key) continue;
        if ((err = close_text(w, slot + 1, entry->key, (size_t)entry->key_size, 1))) return err;
        if ((err = keep_value(w, slot + 2, entry->value, entry->size, &kind))) return err;
        if (kind == NOTHING || kind == V_STRING) continue;
        typed = 1;
        if ((err = close_text(w, slot + 4, entry->key, (size_t)entry->key_size, 1))) return err;
        err = close_text(w, slot + 5, KINDS[kind], strlen(KINDS[kind]), 1);
    }
    if (!err) err = close_offset(w, slot, slot[1].length, present);
    return err ? err : close_offset(w, slot + 3, slot[4].length, typed);
}

static int close_column(Walker *w, int c, int present) {
    const Node *node = &w->nodes[c];
    const Cell *cell = &w->cells[c];
    if (node->op == MESSAGE) return close_row(w, c, present && cell->seen);
    Slot *slot = &w->slots[node->slot];
    const int valid = present && (cell->seen || !node->arg); /* arg: whether what is absent is null, or zero */
    int kind, err;
    switch (node->op) {
    case LEVEL: return OK;
    case LIST: return close_offset(w, slot, slot->items, present);
    case ATTRIBUTES: return close_attributes(w, c, present);
    case ANY:
        if ((err = keep_value(w, slot, cell->at, cell->value, &kind))) return err;
        return close_text(w, slot + 1, KINDS[kind], strlen(KINDS[kind]), kind != NOTHING);
    case STRING:
    case ID: return close_text(w, slot, cell->at, (size_t)cell->value, present && cell->seen && cell->value);
    case FIXED64S:
    case UINT64S:
    case DOUBLES:
    case STRINGS: return close_offset(w, slot, slot[1].length, present);
    case BOOL:
        if ((err = append_bit(w, &slot->main, slot->length, cell->value != 0))) return err;
        return close_value(w, slot, valid);
    case INT32:
    case SINT32: {
        int32_t narrow = (int32_t)cell->value;
        if ((err = append(w, &slot->main, &narrow, 4))) return err;
        return close_value(w, slot, valid);
    }
    default:
        if ((err = append(w, &slot->main, &cell->value, 8))) return err;
        return close_value(w, slot, valid);
    }
}

static int close_row(Walker *w, int n, int present) {
    int err = OK;
    for (int c = n + 1; c < w->nodes[n].next && !err; c = w->nodes[c].next) err = close_column(w, c, present);
    return err;
}
