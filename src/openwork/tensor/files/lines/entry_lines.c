/* Parses lines of text files into arrays: the coordinates of an entry and its value.
 *
 * Everything is checked: parsing stops at the first line that breaks the layout, and Python
 * explains the fault at its offset. The C library is not used, so the locale does not matter.
 * Threads are Python's, each with its own text. */

typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;

/* What a line holds: `modes` coordinates from 1 to `limits[mode]`, then the value of `field`. */
typedef struct {
  int64_t modes, field, triangle, comment, wide;
  const int64_t *limits;
  const int64_t *powers; /* of ten, from `FIRST_POWER` on, each as three words: see `scaled` */
} layout_t;

enum { PATTERN, REAL, COMPLEX, INTEGER, UNSIGNED };       /* fields */
enum { ALL, LOWER, STRICTLY_LOWER, HERMITIAN };           /* triangles */
enum { GOOD, BAD, HARD };                                 /* the result of parsing a number */
enum { FIRST_POWER = -342, LAST_POWER = 308, DIGITS = 19 };

static int blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static int ends(char c) { return blank(c) || c == '\n'; }
static unsigned digit(char c) { return (unsigned)(unsigned char)c - '0'; }

static double from_bits(uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, 8);
  return value;
}

#ifdef __SIZEOF_INT128__
typedef unsigned __int128 wide_t;

/* The double nearest to product * 2^(exponent - 1023 - 52 - below), a subnormal; the product is too
 * small by less than 2. */
static __attribute__((noinline)) int subnormal(wide_t product, int64_t exponent, int64_t below,
                                               double *value) {
  below += 1 - exponent;
  if (below > 128) return GOOD;
  const wide_t half = (wide_t)1 << (below - 1);
  const wide_t rest = product & (half - 1 + half);
  if (rest == half || rest == half - 1) return HARD;
  *value = from_bits((below == 128 ? 0 : (uint64_t)(product >> below)) + (rest > half));
  return GOOD;
}
#endif

/* w * 10^e, rounded to the nearest double; HARD if 128 bits do not tell which one that is.
 *
 * The table has the leading 128 bits of 10^e, truncated, and the exponent of the first of them.
 * With w normalized, the product's leading 128 bits are too small by less than two units: one for
 * the truncated table, one for the truncated multiplication. So rounding is safe unless they are
 * just below, or at, the middle between two doubles. */
static int scaled(uint64_t w, int64_t e, const int64_t *powers, double *value) {
#ifdef __SIZEOF_INT128__
  *value = 0;
  if (w == 0 || e < FIRST_POWER) return GOOD;
  if (e > LAST_POWER) return BAD;
  const int64_t *power = powers + 3 * (e - FIRST_POWER);
  const int shift = __builtin_clzll(w);
  w <<= shift;
  const wide_t product =
      (wide_t)w * (uint64_t)power[0] + (uint64_t)(((wide_t)w * (uint64_t)power[1]) >> 64);
  const uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
  const int top = (int)(high >> 63); /* the leading bit is bit 126 + top */
  const int64_t exponent = 126 + top + power[2] - shift - 63 + 1023;
  if (exponent <= 0) return subnormal(product, exponent, 74 + top, value);
  const int below = 10 + top; /* bits of the upper half that are beyond the 53 of a double */
  const uint64_t half = (uint64_t)1 << (below - 1), rest = high & (half - 1 + half);
  if ((rest == half && low == 0) || (rest == half - 1 && low == ~(uint64_t)0)) return HARD;
  /* The leading bit of the mantissa adds one to the exponent. */
  const uint64_t bits = (high >> below) + (rest >= half) + ((uint64_t)(exponent - 1) << 52);
  if (bits >= (uint64_t)2047 << 52) return BAD;
  *value = from_bits(bits);
  return GOOD;
#else
  (void)w, (void)e, (void)powers, (void)value;
  return HARD;
#endif
}

static const uint64_t SMALL_TENS[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Append up to eight digits at p to *w, where eight bytes can be read; returns how many. */
static int some_digits(const char *p, uint64_t *w) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  uint64_t v;
  __builtin_memcpy(&v, p, 8);
  /* The first non-digit byte gets its highest bit set; the bytes after it do not matter. */
  const uint64_t others = ((v + 0x4646464646464646u) | (v - 0x3030303030303030u)) &
                          0x8080808080808080u;
  const int count = others ? __builtin_ctzll(others) >> 3 : 8;
  if (count == 0) return 0;
  v = (v - 0x3030303030303030u) << (64 - 8 * count);                        /* zeros in front */
  v = (v * 10 + (v >> 8)) & 0x00ff00ff00ff00ffu;                            /* pairs */
  v = (v * 100 + (v >> 16)) & 0x0000ffff0000ffffu;                          /* fours */
  *w = *w * SMALL_TENS[count] + ((v * 10000 + (v >> 32)) & 0xffffffffu);
  return count;
#else
  int count = 0;
  for (; count < 8 && digit(p[count]) < 10; count++) *w = *w * 10 + digit(p[count]);
  return count;
#endif
}

/* Append all digits at p to *w, which wraps beyond `DIGITS` of them. */
static const char *digits_at(const char *p, uint64_t *w) {
  int count;
  do p += count = some_digits(p, w);
  while (count == 8);
  return p;
}

/* Skip the (lower-case) word at p, ignoring case; 0 if it is not there. */
static const char *word_at(const char *p, const char *word) {
  for (; *word; p++, word++)
    if ((*p | 32) != *word) return 0;
  return p;
}

static const char *not_finite(const char *p, int negative, double *value) {
  const char *end = word_at(p, "nan");
  if (end) {
    *value = from_bits((uint64_t)0x7ff8 << 48);
    return end;
  }
  end = word_at(p, "infinity");
  if (!end) end = word_at(p, "inf");
  *value = from_bits((uint64_t)(negative ? 0xfff0 : 0x7ff0) << 48);
  return end;
}

/* The exponent after its letter; saturates far outside the range of a double. */
static const char *exponent_at(const char *p, int64_t *exponent) {
  const int negative = *p == '-';
  int64_t e = 0;
  if (*p == '-' || *p == '+') p++;
  if (digit(*p) > 9) return 0;
  for (; digit(*p) < 10; p++)
    if (e < 1 << 30) e = 10 * e + digit(*p);
  *exponent = negative ? -e : e;
  return p;
}

/* The first `DIGITS` significant digits from p on (a point may be among them), and the exponent's
 * correction for dropped digits and those after the point. */
static uint64_t leading_digits(const char *p, const char *end, int64_t *moved) {
  uint64_t w = 0;
  int64_t taken = 0, left = 0, after = 0, point = 0;
  for (; p < end; p++) {
    if (*p == '.') {
      point = 1;
      continue;
    }
    after += point;
    if (taken == DIGITS) left++;
    else if (taken > 0 || *p != '0') w = w * 10 + digit(*p), taken++;
  }
  *moved = left - after;
  return w;
}

/* A decimal number, or nan or inf; 0 if there is none at p, or it overflows a double. */
static const char *real_at(const char *p, const int64_t *powers, double *value, int *status) {
  const int negative = *p == '-';
  *status = GOOD;
  if (*p == '-' || *p == '+') p++;
  if ((*p | 32) == 'n' || (*p | 32) == 'i') return not_finite(p, negative, value);
  const char *first = p, *fraction = 0;
  uint64_t w = 0;
  int64_t e = 0, moved = 0;
  p = digits_at(p, &w);
  int64_t count = p - first;
  if (*p == '.') {
    fraction = ++p;
    p = digits_at(p, &w);
    moved = -(p - fraction);
    count += p - fraction;
  }
  if (count == 0) return 0;
  const char *last = p;
  if ((*p | 32) == 'e' || (*p | 32) == 'd') { /* d is Fortran's */
    p = exponent_at(p + 1, &e);
    if (!p) return 0;
  }
  double magnitude;
  if (count > DIGITS) {
    uint64_t kept = leading_digits(first, last, &moved);
    double above;
    *status = scaled(kept, e + moved, powers, &magnitude);
    /* The dropped digits add less than one to the kept ones. */
    const int next = scaled(kept + 1, e + moved, powers, &above);
    if (kept && (*status != next || magnitude != above)) *status = HARD;
  } else if (e + moved == 0 && w <= (uint64_t)1 << 53) {
    magnitude = (double)w;
  } else {
    *status = scaled(w, e + moved, powers, &magnitude);
  }
  *value = negative ? -magnitude : magnitude;
  return *status == BAD ? 0 : p;
}

/* A 64-bit integer, signed unless `field` is UNSIGNED. */
static const char *integer_at(const char *p, int64_t field, uint64_t *value) {
  const int negative = *p == '-';
  if (*p == '+' || (negative && field != UNSIGNED)) p++;
  if (digit(*p) > 9) return 0;
  const uint64_t most = field == UNSIGNED ? ~(uint64_t)0 : ((uint64_t)1 << 63) - !negative;
  uint64_t w = 0;
  for (; digit(*p) < 10; p++) {
    if (w > most / 10 || (w == most / 10 && digit(*p) > most % 10)) return 0;
    w = w * 10 + digit(*p);
  }
  *value = negative ? -w : w;
  return p;
}

/* A coordinate from 1 to `limit`, returned zero-based. */
static const char *coordinate_at(const char *p, int64_t limit, int64_t *value) {
  const char *first = p;
  uint64_t w = 0;
  if (*p == '+') first = ++p;
  p = digits_at(p, &w);
  if (p == first || !ends(*p)) return 0;
  if (p - first > 18) { /* might have overflowed: parse again, with checks */
    if (!integer_at(first, INTEGER, &w)) return 0;
  }
  *value = (int64_t)w - 1;
  return w > 0 && w <= (uint64_t)limit ? p : 0;
}

/* Where the entries go, and the other inputs and outputs of a call. */
typedef struct {
  void *const *coords; /* an array for each mode, of int64 if the layout is wide, else of int32 */
  uint64_t *values;
  int64_t *hard;    /* two words for each number left to Python: value's index, text's offset */
  int64_t hard_count;
  int64_t used, room; /* entries in the arrays, and how many there may be */
  int64_t lines;      /* of this text */
  int64_t bad;        /* the offset of the first line that is bad, or has no room; or -1 */
} output_t;

static const char *value_at(const char *p, const layout_t *layout, const char *text,
                            output_t *out) {
  if (layout->field == INTEGER || layout->field == UNSIGNED) {
    while (blank(*p)) p++;
    p = integer_at(p, layout->field, out->values + out->used);
    return p && ends(*p) ? p : 0;
  }
  for (int64_t part = 0; part < layout->field; part++) { /* REAL is one, COMPLEX two */
    const int64_t slot = out->used * layout->field + part;
    double value;
    int status;
    while (blank(*p)) p++;
    const char *start = p;
    p = real_at(p, layout->powers, &value, &status);
    if (!p || !ends(*p)) return 0;
    if (status == HARD) {
      out->hard[2 * out->hard_count] = slot;
      out->hard[2 * out->hard_count++ + 1] = start - text;
      value = 1;
    }
    __builtin_memcpy(out->values + slot, &value, 8);
  }
  return p;
}

/* Whether an entry is in the stored triangle; `row` and `column` are unused if all are allowed. */
static int in_triangle(const layout_t *layout, int64_t row, int64_t column, const output_t *out) {
  if (layout->triangle == ALL || row > column) return 1;
  if (row < column || layout->triangle == STRICTLY_LOWER) return 0;
  const int real = layout->triangle != HERMITIAN || layout->field != COMPLEX;
  return real || !(out->values[2 * out->used + 1] << 1);
}

/* Parse one entry from the first non-blank character of its line; the end of the line, or 0. */
static const char *entry_at(const char *p, const layout_t *layout, const char *text,
                            output_t *out) {
  int64_t last[2] = {0, 0};
  for (int64_t mode = 0; mode < layout->modes; mode++) {
    int64_t coordinate;
    while (blank(*p)) p++;
    p = coordinate_at(p, layout->limits[mode], &coordinate);
    if (!p) return 0;
    if (layout->wide) ((int64_t *)out->coords[mode])[out->used] = coordinate;
    else ((int32_t *)out->coords[mode])[out->used] = (int32_t)coordinate;
    last[mode & 1] = coordinate;
  }
  if (layout->field != PATTERN) p = value_at(p, layout, text, out);
  if (!p || !in_triangle(layout, last[0], last[1], out)) return 0;
  while (blank(*p)) p++;
  return *p == '\n' ? p : 0;
}

/* Append the entries of a text, whose last character is a newline (8 bytes beyond it can be read).
 * There is room in `hard` for two words per number of the text. */
void ow_parse_rows(const layout_t *layout, const char *text, int64_t length, output_t *out) {
  const char *p = text;
  out->lines = out->hard_count = 0;
  out->bad = -1;
  for (; p < text + length; p++, out->lines++) {
    const char *line = p;
    while (blank(*p)) p++;
    if (*p == '\n') continue;
    if (*p == (char)layout->comment) {
      while (*p != '\n') p++;
      continue;
    }
    const int64_t hard = out->hard_count;
    p = out->used < out->room ? entry_at(p, layout, text, out) : 0;
    if (!p) {
      out->bad = line - text;
      out->hard_count = hard;
      return;
    }
    out->used++;
  }
}
