// Calls a kernel as an ordinary function of Python's, with arrays of NumPy's as its arguments.
//
// It needs no header of Python's: it gets the addresses of the few functions that it calls.

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;

enum { MOST = 8 };  // operands and result of a call

// What stands for an operand: an array of NumPy's, or a number that an array of one is made of.
enum { ARRAY = 0, DOUBLE = 1, FLOAT = 2 };

// A kernel and its sizes. The same structure is in direct.py.
typedef struct {
  int32_t (*kernel)(void **arrays, int64_t *sizes);
  int64_t *sizes;
  void *stop;
  int64_t count;   // operands, and the result
  int64_t offset;  // where an array object has the address of its elements
  int64_t brief;   // whether other threads of Python may wait for it
  int64_t kinds[MOST];
} direct_call;

static void *(*from_long)(long);
static void *(*as_address)(void *);
static double (*as_double)(void *);
static void *(*failed)(void);
static void *(*release)(void);
static void (*acquire)(void *);

void ow_direct_open(void *const *functions) {
  from_long = functions[0];
  as_address = functions[1];
  as_double = functions[2];
  failed = functions[3];
  release = functions[4];
  acquire = functions[5];
}

// `self`: the address of a `direct_call`, as an integer of Python's. Returns the kernel's status;
// -1 if it was not called; nothing if a number raised an error.
void *ow_direct_run(void *self, void *const *given, int64_t count) {
  const direct_call *call = as_address(self);
  if (count != call->count || count > MOST) return from_long(-1);
  void *arrays[1 + MOST];
  double doubles[MOST];
  float floats[MOST];
  arrays[0] = call->stop;
  for (int64_t n = 0; n < count; n++) {
    if (call->kinds[n] == ARRAY) {
      arrays[1 + n] = *(void *const *)((const char *)given[n] + call->offset);
      continue;
    }
    doubles[n] = as_double(given[n]);
    if (doubles[n] == -1 && failed()) return 0;
    floats[n] = (float)doubles[n];
    arrays[1 + n] = call->kinds[n] == DOUBLE ? (void *)&doubles[n] : (void *)&floats[n];
  }
  if (call->brief) return from_long(call->kernel(arrays, call->sizes));
  void *thread = release();
  const int32_t status = call->kernel(arrays, call->sizes);
  acquire(thread);
  return from_long(status);
}
