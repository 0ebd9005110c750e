// Whether places in Python's objects contain what they did. Python's own functions, of whose
// addresses `gg_set_python` is told since there may be no Python.h, are called with the GIL.

static struct {
    void *(*get_attribute)(void *, void *), *(*get_item)(void *, void *);
    void *(*get_of_dict)(void *, void *), *(*get_of_list)(void *, int64_t);
    int64_t (*length)(void *);
    int (*next)(void *, int64_t *, void **, void **);
    void (*release)(void *), *(*truth)(long);
} python;
static int64_t head; // bytes of a bytes object before its contents

void gg_set_python(const void *functions, int64_t head_of_bytes) {
    memcpy(&python, functions, sizeof python);
    head = head_of_bytes;
}

// What is compared, see `objects.py`.
enum { END, SLOT, OTHER, SAME, ITEM_OF_DICT, ITEM_OF_LIST, ITEM, ATTRIBUTE, NAMES, LENGTH };

typedef struct {
    int64_t kind;
    void *x, *key, *value; // an object, what to look up in it, and what is expected there
} Place;

static int has_names(void *dict, void **names, int64_t n) {
    int64_t at = 0, found = 0;
    void *name, *value;
    while (python.next(dict, &at, &name, &value))
        if (found == n || name != names[found++])
            return 0;
    return found == n;
}

// A method of a bytes object that contains places, of which the last is END, and then names.
void *gg_are_same(char *self, void *no_arguments) {
    const char *content = self + head;
    int holds = 1;
    for (const Place *p = (const Place *)content; holds && p->kind != END; p++) {
        void *found = NULL;
        switch (p->kind) {
        case SLOT: holds = *(void **)p->x == p->value; break;
        case OTHER: holds = *(void **)p->x != p->value; break;
        case SAME: holds = *(void **)p->x == *(void **)p->value; break;
        case ITEM_OF_DICT: holds = python.get_of_dict(p->x, p->key) == p->value; break;
        case ITEM_OF_LIST:
            found = python.get_of_list(p->x, (int64_t)p->key);
            if (!found)
                return NULL; // the error of Python's function
            holds = found == p->value;
            break;
        case NAMES:
            holds = has_names(p->x, (void **)(content + (int64_t)p->value), (int64_t)p->key);
            break;
        case LENGTH: {
            int64_t length = python.length(p->x);
            if (length < 0)
                return NULL;
            holds = length == (int64_t)p->value;
            break;
        }
        default:
            found = (p->kind == ITEM ? python.get_item : python.get_attribute)(p->x, p->key);
            if (!found)
                return NULL;
            holds = found == p->value;
            python.release(found);
        }
    }
    return python.truth(holds);
}
