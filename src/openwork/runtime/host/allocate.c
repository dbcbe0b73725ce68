
/* Below: how this library gets large blocks of memory, and gives them back. The linker replaces the C
 * library's functions by these (`-Wl,--wrap`), which ask those who keep freed blocks (kept.c). */
#define OPENWORK_LARGE 65536
#define OPENWORK_CLEARED 8388608 /* more is not cleared by hand: the system does, where it is used */
#define OPENWORK_WRAP __attribute__((visibility("hidden"), used, noinline, noclone))

/* Set as soon as the library is loaded. */
void *(*openwork_take)(__SIZE_TYPE__) = 0;
void (*openwork_give)(void *) = 0;

__SIZE_TYPE__ malloc_usable_size(void *);
void *__real_malloc(__SIZE_TYPE__);
void *__real_calloc(__SIZE_TYPE__, __SIZE_TYPE__);
void *__real_realloc(void *, __SIZE_TYPE__);
void __real_free(void *);

OPENWORK_WRAP void *__wrap_malloc(__SIZE_TYPE__ bytes) {
  void *const kept = bytes >= OPENWORK_LARGE && openwork_take ? openwork_take(bytes) : 0;
  return kept ? kept : __real_malloc(bytes);
}

OPENWORK_WRAP void *__wrap_calloc(__SIZE_TYPE__ count, __SIZE_TYPE__ size) {
  __SIZE_TYPE__ bytes = 0;
  void *kept = 0;
  if (!__builtin_mul_overflow(count, size, &bytes) && bytes >= OPENWORK_LARGE &&
      bytes <= OPENWORK_CLEARED && openwork_take)
    kept = openwork_take(bytes);
  return kept ? __builtin_memset(kept, 0, bytes) : __real_calloc(count, size);
}

OPENWORK_WRAP void *__wrap_realloc(void *block, __SIZE_TYPE__ bytes) {
  if (!block) return __wrap_malloc(bytes);
  return malloc_usable_size(block) >= bytes ? block : __real_realloc(block, bytes);
}

OPENWORK_WRAP void __wrap_free(void *block) {
  if (openwork_give && block && malloc_usable_size(block) >= OPENWORK_LARGE) openwork_give(block);
  else __real_free(block);
}
