// Looks at places in Python's objects, and changes some. Python's own functions, of whose
// addresses `gg_set_python` is told since there may be no Python.h, are called with the GIL.

static struct {
    void *(*get_attribute)(void *, void *), *(*get_item)(void *, void *);
    void *(*get_of_dict)(void *, void *), *(*get_of_list)(void *, int64_t);
    int64_t (*length)(void *);
    int (*next)(void *, int64_t *, void **, void **), (*is_instance)(void *, void *);
    void (*retain)(void *), (*release)(void *), *(*truth)(long);
    void *(*save)(void), (*restore)(void *); // release the GIL, and take it again
    void *(*call)(void *);
    int64_t head, head_of_bytes; // bytes of objects, and of bytes objects, before their contents
    void *arrays, *none;         // the type of NumPy's arrays; None
} python;

void gg_set_python(const void *told) { memcpy(&python, told, sizeof python); }

typedef struct {
    int64_t kind;
    void **x, *key, *value; // an object or where one is, what to look up, and what is expected
} Place;

static void put(void *place, void *x) {
    void **to = place, *old = *to;
    *to = x;
    python.release(old);
}

static void *retained(void *x) {
    python.retain(x);
    return x;
}

typedef struct {
    char *elements;
    int axes;
    int64_t *lengths, *steps;
    void *base, *dtype;
} NumPyArray; // what an array of NumPy contains

#define CONTENT(x) ((char *)(x) + python.head)
#define TYPE_OF(x) (((void **)CONTENT(x))[-1])
#define ARRAY_OF(x) ((const NumPyArray *)CONTENT(x))

// Lists of numbers begin with how many follow.
static int has_names(void *dict, const int64_t *names) {
    int64_t at = 0, found = 0;
    void *name, *value;
    while (python.next(dict, &at, &name, &value))
        if (found++ == *names || (int64_t)name != names[found])
            return 0;
    return found == *names;
}

static int is_among(void *x, const int64_t *list) {
    for (int64_t i = 1; i <= *list; i++)
        if ((int64_t)x == list[i])
            return 1;
    return 0;
}

// A layout is a dtype, the lengths of all axes, and their steps.
static int has_layout(void *x, const int64_t *layout) {
    const int64_t n = (*layout - 1) / 2;
    if (TYPE_OF(x) != python.arrays || ARRAY_OF(x)->axes != n ||
        (int64_t)ARRAY_OF(x)->dtype != layout[1])
        return 0;
    // Without axes there are no arrays of lengths and steps.
    return !n || (!memcmp(ARRAY_OF(x)->lengths, layout + 2, 8 * n) &&
                  !memcmp(ARRAY_OF(x)->steps, layout + 2 + n, 8 * n));
}

// Whether an array lies in none of the arrays whose elements begin at these addresses.
static int is_outside(void *x, const int64_t *addresses) {
    void *base;
    while ((base = ARRAY_OF(x)->base) &&
           (TYPE_OF(base) == python.arrays || python.is_instance(base, python.arrays) == 1))
        x = base;
    return !is_among(ARRAY_OF(x)->elements, addresses);
}

// What is compared or done, see `objects.py`.
enum { END, SLOT, OTHER, SAME, DIFFERENT, TYPE, FIELD, LOAD, APART, LAYOUT, OUTSIDE };
enum { NAMES = OUTSIDE + 1, LENGTH, KEPT, ITEM_OF_DICT, ITEM_OF_LIST, ITEM, ATTRIBUTE };
enum { CALL = ATTRIBUTE + 1, MAKE, PUT, NEW };

// A method of a bytes object that contains places, of which the last is END, and lists of numbers.
void *gg_visit(char *self, void *no_arguments) {
    const char *content = self + python.head_of_bytes;
    int holds = 1;
    for (const Place *p = (const Place *)content; holds && p->kind != END; p++) {
        const int64_t *list = (const int64_t *)(content + (int64_t)p->value);
        void *found = NULL;
        switch (p->kind) {
        case SLOT: holds = *p->x == p->value; break;
        case OTHER: holds = *p->x != p->value; break;
        case SAME: holds = *p->x == *(void **)p->value; break;
        case DIFFERENT: holds = *p->x != *(void **)p->value; break;
        case TYPE: holds = TYPE_OF(*p->x) == p->value; break;
        case FIELD: holds = *(void **)(*(char **)p->x + (int64_t)p->key) == p->value; break;
        case LOAD:
            found = p->key ? *(void **)(*(char **)p->x + (int64_t)p->key) : *p->x;
            holds = found != NULL;
            if (holds)
                put(p->value, retained(found));
            break;
        case APART: holds = !is_among(*p->x, list); break;
        case LAYOUT: holds = has_layout(*p->x, list); break;
        case OUTSIDE: holds = is_outside(*p->x, list); break;
        case NAMES: holds = has_names(p->x, list); break;
        case LENGTH: {
            int64_t length = python.length(p->x);
            if (length < 0)
                return NULL; // with the error of Python's function
            holds = length == (int64_t)p->value;
            break;
        }
        case KEPT: holds = python.get_of_dict(p->x, p->key) == *(void **)p->value; break;
        case ITEM_OF_DICT: holds = python.get_of_dict(p->x, p->key) == p->value; break;
        case ITEM_OF_LIST:
            found = python.get_of_list(p->x, (int64_t)p->key);
            if (!found)
                return NULL;
            holds = found == p->value;
            break;
        case CALL:
        case MAKE:
            found = python.call(p->x);
            if (!found)
                return NULL;
            if (p->kind == MAKE)
                put(p->value, found);
            else
                python.release(found);
            break;
        case PUT: put(p->x, retained(*(void **)p->value)); break;
        case NEW:
            found = python.none;
            if (*p->x == found)
                python.retain(found);
            else if (!(found = python.call((void *)list[1])))
                return NULL;
            else {
                put((char *)found + list[2], retained(*p->x));
                for (int64_t i = 3; i <= *list; i++)
                    put((char *)found + list[i], retained(python.none));
            }
            put(*(char **)p->key + list[*list], found); // last, so that it is complete
            break;
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

// A method of a bytes object that contains a kernel, its arguments, and an object to call if the
// kernel does not return 0. Other threads can run meanwhile.
void *gg_run_kernel(char *self, void *no_arguments) {
    const struct {
        int (*kernel)(void *, void *, int64_t);
        void *table, *registers, *otherwise;
    } *given = (void *)(self + python.head_of_bytes);
    void *state = python.save();
    const int found = given->kernel(given->table, given->registers, 1);
    python.restore(state);
    return found ? python.call(given->otherwise) : retained(python.none);
}
