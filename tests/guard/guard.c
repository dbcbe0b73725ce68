// An allocator that gives nothing for free, to be loaded before Python (`make guard`).
//
// Sanitizers see what they have instrumented. This sees the blocks themselves, whoever writes to them: behind each
// lies a canary that is looked at when the block is freed, and what nobody has written yet are small whole numbers,
// which pass for coordinates and positions, so that who reads them gets a wrong answer sooner than luck.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

enum { CANARY = 0xA5, BEHIND = 64, FILLED = 1 << 16 };
static const uint64_t LIVE = 0x1badb0021badb002, FREED = 0xdeaddeaddeaddead;
static const size_t MOST = (size_t)1 << 48;

typedef struct {
  uint64_t state, size;
  void *start;
  uint64_t unused;  // what follows is aligned to 16 bytes
} Head;

static void end(const char *problem, size_t size) {
  char text[128] = "guard: ", digits[24];
  size_t length = strlen(text), count = 0;
  while (*problem) text[length++] = *problem++;
  do digits[count++] = (char)('0' + size % 10);
  while (size /= 10);
  while (count) text[length++] = digits[--count];
  text[length++] = '\n';
  if (write(2, text, length) >= 0) abort();
  abort();
}

// Small numbers of 32 bits, or of 64.
static void fill(uint32_t *words, size_t count) {
  static __thread uint32_t state = 12345;
  const int wide = (state = state * 1664525 + 1013904223) >> 31;
  for (size_t n = 0; n < count; n++) {
    state = state * 1664525 + 1013904223;
    words[n] = wide && n % 2 ? 0 : state >> 29;
  }
}

static void *block(size_t alignment, size_t size, int zeroed) {
  if (alignment < 16) alignment = 16;
  char *start = size > MOST ? NULL : __libc_malloc(size + alignment + sizeof(Head) + BEHIND);
  if (!start) {
    errno = ENOMEM;
    return NULL;
  }
  const uintptr_t least = (uintptr_t)start + sizeof(Head) + alignment - 1;
  char *given = (char *)(least - least % alignment);
  ((Head *)given)[-1] = (Head){LIVE, size, start, 0};
  memset(given + size, CANARY, BEHIND);
  if (zeroed) memset(given, 0, size);
  else fill((uint32_t *)given, (size < FILLED ? size : FILLED) / 4);
  return given;
}

static Head *checked(void *given) {
  Head *head = (Head *)given - 1;
  if (head->state == FREED) end("freed twice, a block of bytes: ", head->size);
  if (head->state != LIVE) end("written in front of a block, or not one: ", 0);
  for (size_t n = 0; n < BEHIND; n++)
    if (((unsigned char *)given)[head->size + n] != CANARY) end("written behind a block of bytes: ", head->size);
  return head;
}

void *malloc(size_t size) { return block(16, size, 0); }

void *calloc(size_t count, size_t each) {
  size_t size;
  return block(16, __builtin_mul_overflow(count, each, &size) ? MOST + 1 : size, 1);
}

void free(void *given) {
  if (!given) return;
  Head *head = checked(given);
  head->state = FREED;
  memset(given, 0x5A, head->size < FILLED ? head->size : FILLED);
  __libc_free(head->start);
}

void *realloc(void *given, size_t size) {
  if (!given) return malloc(size);
  const size_t old = checked(given)->size;
  void *larger = block(16, size, 0);
  if (!larger) return NULL;
  memcpy(larger, given, old < size ? old : size);
  free(given);
  return larger;
}

void *memalign(size_t alignment, size_t size) { return block(alignment, size, 0); }
void *aligned_alloc(size_t alignment, size_t size) { return block(alignment, size, 0); }
void *valloc(size_t size) { return block(4096, size, 0); }
size_t malloc_usable_size(void *given) { return given ? checked(given)->size : 0; }

int posix_memalign(void **given, size_t alignment, size_t size) {
  void *made = block(alignment, size, 0);
  if (made) *given = made;
  return made ? 0 : ENOMEM;
}
