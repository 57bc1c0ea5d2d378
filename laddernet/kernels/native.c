// The native kernels of a training step: matrix products, Adam's step, and normalisation. products.py and
// normalisation.py call them; native.py decides where they replace plain JAX functions.

#include "native.h"

// --- Words ---------------------------------------------------------------------------------------------------

// Products multiply words of 32 bits. A word is one float32 or a pair of bfloat16 numbers, neighbours along the summed
// dimension, the depth: the product of two pairs is the sum of two products, in float32.

// One float32 a word, pairs, or pairs that matrix units multiply.
typedef enum { FLOATS, PAIRS, SQUARES } Kind;

// Known to the compiler on processors without such units, so that they pay nothing for them.
#if defined(__AMX_BF16__) && defined(__linux__)
#define HAS_SQUARES true
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HAS_SQUARES false
#endif

INLINE bool in_squares(Kind kind) { return HAS_SQUARES && kind == SQUARES; }

INLINE vec plus_product(vec sum, float a, vec b, bool pairs) {
  if (!pairs) return sum + a * b;
#if defined(__AVX512BF16__)
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(a), (__m512bh)b);
#else
  uvec left = (uvec)splat(a), right = (uvec)b;
  sum += (vec)(left << 16) * (vec)(right << 16);
  return sum + (vec)(left & 0xffff0000) * (vec)(right & 0xffff0000);
#endif
}

// The nearest bfloat16 of each element, in the upper half of its word.
INLINE uvec rounded(vec x) {
#if defined(__AVX512BF16__)
  return (uvec)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x)), 16);
#else
  uvec bits = (uvec)x, nearest = bits + 0x7fff + (bits >> 16 & 1);
  return (uvec)choose(x == x, (vec)nearest, (vec)(bits | 0x400000)) & 0xffff0000;  // NaN stays NaN
#endif
}

// Pairs of an element of each vector, the first in the lower half.
INLINE vec paired(vec low, vec high) { return (vec)(rounded(low) >> 16 | rounded(high)); }

// Pairs of neighbours in a, followed by those in b.
INLINE vec neighbours(vec a, vec b) {
#if defined(__AVX512BF16__)
  return (vec)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
#else
  ivec even, odd;
  EACH(i, LANES) even[i] = 2 * i, odd[i] = 2 * i + 1;
  return paired(shuffled(a, b, even), shuffled(a, b, odd));
#endif
}

typedef struct {
  const float *at;
  num rows, columns;
} Matrix;

// The number of words of this depth, with zeros up to whole squares.
static num words_of(num depth, Kind kind) {
  num words = kind ? parts_of(depth, 2) : depth;
  return in_squares(kind) ? parts_of(words, LANES) * LANES : words;
}

// LANES words of a row, from the k-th on; zeros beyond its end.
INLINE vec along_row(const Matrix *m, num row, num k, bool pairs) {
  num column = pairs ? 2 * k : k, left = m->columns - column;
  const float *at = m->at + row * m->columns + column;
  vec first = load_first(at, within(left));
  return pairs ? neighbours(first, load_first(at + LANES, within(left - LANES))) : first;
}

// The k-th words of `count` columns, from column j on; zeros beyond the last row.
INLINE vec across_rows(const Matrix *m, num k, num j, int count, bool pairs) {
  num row = pairs ? 2 * k : k;
  if (HAS_SQUARES && row >= m->rows) return (vec){0};
  const float *at = m->at + row * m->columns + j;
  vec first = load_first(at, count);
  if (!pairs) return first;
  return paired(first, row + 1 < m->rows ? load_first(at + m->columns, count) : (vec){0});
}

// Transpose a square of words: riffle its rows log2(LANES) times.
INLINE void transpose(vec square[LANES]) {
  ivec low, high;
  EACH(i, LANES) low[i] = i / 2 + (i % 2) * LANES, high[i] = low[i] + LANES / 2;
  UNROLL for (int times = 1; times < LANES; times *= 2) {
    vec riffled[LANES];
    EACH(i, LANES / 2) {
      riffled[2 * i] = shuffled(square[i], square[i + LANES / 2], low);
      riffled[2 * i + 1] = shuffled(square[i], square[i + LANES / 2], high);
    }
    EACH(i, LANES) square[i] = riffled[i];
  }
}

// --- Matrix units --------------------------------------------------------------------------------------------

// Those of Intel (AMX) multiply squares of 16 rows of 16 words. Linux opens their registers to a process on request.
static bool squares_allowed(void) {
  static atomic_int known;  // 1: allowed, −1: refused
#if HAS_SQUARES
  enum { REQUEST = 0x1023, REGISTERS = 18 };  // Linux: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (atomic_load(&known) == 0) atomic_store(&known, syscall(SYS_arch_prctl, REQUEST, REGISTERS) == 0 ? 1 : -1);
#endif
  return atomic_load(&known) > 0;
}

// Set up the registers of this thread, or release them.
static void use_squares(Kind kind, bool use) {
#if HAS_SQUARES
  static const struct {
    uint8_t palette, reserved[15];
    uint16_t bytes_of_row[16];
    uint8_t rows[16];
  } eight = {.palette = 1, .bytes_of_row = {[0 ... 7] = 64}, .rows = {[0 ... 7] = 16}};
  if (kind == SQUARES) use ? _tile_loadconfig(&eight) : _tile_release();
#endif
}

// --- Tiles ---------------------------------------------------------------------------------------------------

// A tile of the result, TALL rows of WIDE vectors, is kept in registers: all but those for the operands.
#if defined(__AVX512F__)
enum { TALL = 12 };
#elif defined(__AVX__)
enum { TALL = 6 };
#else
enum { TALL = 8 };
#endif
enum { WIDE = 2, PANEL = WIDE * LANES, DEPTH = 320, LINE = 16 };

// Rows of up to three matrices to be prefetched, as cache lines. Each part of a tile fetches `share` of them: more at
// once would delay the loads of the tile itself.
typedef struct {
  const float *at[3];
  num row, lines, line, left, share;
} Soon;

static Soon soon(const float *at, num row, num rows, num columns, num parts) {
  num lines = columns / LINE + 1;
  return (Soon){.at = {at}, .row = row, .lines = lines, .left = rows * lines, .share = rows * lines / parts + 1};
}

INLINE void fetch(Soon *soon) {
  for (num n = least(soon->share, soon->left); n > 0; n--) {
    EACH(i, 3) if (soon->at[i] != NULL) __builtin_prefetch(soon->at[i] + soon->line * LINE, 0, 2);
    soon->left--;
    if (++soon->line < soon->lines) continue;
    soon->line = 0;
    EACH(i, 3) if (soon->at[i] != NULL) soon->at[i] += soon->row;
  }
}

typedef struct {
  num depth;  // in words
  const float *a, *b;
  num a_row, a_step;  // distance from a row of a to the next, from a word of it to the next
  float *c;
  num c_row, columns;
  bool add;  // the product to c
} Tile;

// Store `count` elements of a vector of the tile's product.
INLINE void put(const Tile *t, num i, num j, vec sum, int count) {
  float *c = t->c + i * t->c_row + j * LANES;
  if (t->add) sum += load_first(c, count);
  store_first(c, sum, count);
}

INLINE void multiply(int tall, int wide, bool pairs, const Tile *t, Soon *soon) {
  vec sum[TALL][WIDE];
  EACH(i, tall) EACH(j, wide) sum[i][j] = (vec){0};
  const float *a = t->a, *b = t->b;
  for (num part = 0; part < TALL; part++) {
    fetch(soon);
    for (num k = t->depth * (part + 1) / TALL - t->depth * part / TALL; k > 0; k--, a += t->a_step, b += wide * LANES) {
      vec right[WIDE];
      EACH(j, wide) right[j] = load(b + j * LANES);
      EACH(i, tall) EACH(j, wide) sum[i][j] = plus_product(sum[i][j], a[i * t->a_row], right[j], pairs);
    }
  }
  EACH(j, wide) {
    int count = within(t->columns - j * LANES);
    EACH(i, tall) put(t, i, j, sum[i][j], count);
  }
}

// The same by matrix units.
static void multiply_squares(int tall, int wide, const Tile *t, Soon *soon) {
#if HAS_SQUARES
  float product[2 * LANES][PANEL];
  num a_row = 4 * t->a_row, b_row = 4 * wide * LANES, row = 4 * PANEL;
  _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
  for (num k = 0; k < t->depth; k += LANES) {
    const float *a = t->a + k, *b = t->b + k * wide * LANES;
    fetch(soon);
    _tile_loadd(4, a, a_row);
    _tile_loadd(6, b, b_row);
    _tile_dpbf16ps(0, 4, 6);
    if (wide > 1) {
      _tile_loadd(7, b + LANES, b_row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (tall > LANES) {
      _tile_loadd(5, a + LANES * t->a_row, a_row);
      _tile_dpbf16ps(2, 5, 6);
      if (wide > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, product[0], row); _tile_stored(1, product[0] + LANES, row);
  _tile_stored(2, product[LANES], row); _tile_stored(3, product[LANES] + LANES, row);
  for (int i = 0; i < tall; i++)
    for (int j = 0; j < wide; j++)
      put(t, i, j, load(product[i] + j * LANES), within(t->columns - j * LANES));
#endif
}

static __attribute__((noinline)) void multiply_tile(int tall, int wide, Kind kind, const Tile *t, Soon *soon) {
  if (in_squares(kind)) return multiply_squares(tall, wide, t, soon);
#define OF_SIZE(T, W) \
  if (tall == T && wide == W) return kind ? multiply(T, W, true, t, soon) : multiply(T, W, false, t, soon);
  OF_SIZE(TALL, 2) OF_SIZE(4, 2) OF_SIZE(1, 2) OF_SIZE(TALL, 1) OF_SIZE(4, 1) OF_SIZE(1, 1)
}

static num most_rows(Kind kind) { return in_squares(kind) ? 2 * LANES : TALL; }  // of a tile

// The number of vectors of a panel with this number of columns.
static int wideness(num columns) { return columns > LANES ? WIDE : 1; }

// --- Products ------------------------------------------------------------------------------------------------

typedef struct {
  Matrix a, b;
  float *words, *c;         // the words of a; the result
  num row, depth, columns;  // distance from a row of words to the next; depth in words
  bool transposed;          // whether b is given as its transpose
  Kind kind;
} Product;

enum { ROWS = 16 };  // that are made words at a time: a single row takes no longer than it takes to hand it out

static void words_of_rows(const void *what, num block) {
  const Product *p = what;
  for (num row = block * ROWS; row < least((block + 1) * ROWS, p->a.rows); row++)
    for (num k = 0; k < p->row; k += LANES) store(p->words + row * p->row + k, along_row(&p->a, row, k, true));
}

// Pack `depth` words of a panel of b, from word k and column j on; columns beyond its end are zeros.
static void pack(const Matrix *b, bool transposed, bool pairs, num k, num depth, num j, float *packed) {
  num columns = least(PANEL, (transposed ? b->rows : b->columns) - j), width = wideness(columns) * LANES;
  for (num c = 0; c < width; c += LANES) {
    if (!transposed) {
      for (num i = 0; i < depth; i++)
        store(packed + i * width + c, across_rows(b, k + i, j + c, within(columns - c), pairs));
      continue;
    }
    for (num i = 0; i < depth; i += LANES) {
      vec square[LANES];
      EACH(r, LANES) square[r] = c + r < columns ? along_row(b, j + c + r, k + i, pairs) : (vec){0};
      transpose(square);
      EACH(r, LANES) if (i + r < depth) store(packed + (i + r) * width + c, square[r]);
    }
  }
}

static void panel_of_product(const void *what, num panel) {
  const Product *p = what;
  float packed[DEPTH * PANEL] __attribute__((aligned(64)));
  num j = panel * PANEL, columns = least(PANEL, p->columns - j), rows = p->a.rows, size = p->kind ? 2 : 1;
  num blocks = p->depth > 0 ? parts_of(p->depth, DEPTH) : 1, most = most_rows(p->kind);
  num least_depth = in_squares(p->kind) ? LANES : 1, depths = p->depth / least_depth;
  use_squares(p->kind, true);
  for (num block = 0; block < blocks; block++) {
    num k = depths * block / blocks * least_depth, end = depths * (block + 1) / blocks * least_depth;
    pack(&p->b, p->transposed, p->kind, k, end - k, j, packed);
    // The block to be packed next: the one below, or the first of the next panel.
    num next = end < p->depth ? end : 0, next_j = next > 0 ? j : j + PANEL, height = p->depth / blocks * size;
    num row = p->transposed ? next_j : next * size, column = p->transposed ? next * size : next_j;
    Soon next_block = soon(p->b.at + row * p->b.columns + column, p->b.columns, p->transposed ? PANEL : height,
                           p->transposed ? height : PANEL, (rows / most + 1) * TALL);
    if (next_j >= p->columns) next_block.left = 0;
    for (num i = 0, tall; i < rows; i += tall) {
      tall = in_squares(p->kind) ? least(most, rows - i) : rows - i >= most ? most : rows - i >= 4 ? 4 : 1;
      Tile t = {.depth = end - k, .a = p->words + i * p->row + k, .a_row = p->row, .a_step = 1, .b = packed,
                .c = p->c + i * p->columns + j, .c_row = p->columns, .columns = columns, .add = block > 0};
      multiply_tile(tall, wideness(columns), p->kind, &t, &next_block);
    }
  }
  use_squares(p->kind, false);
}

// --- Products that are gradients, with Adam's step -----------------------------------------------------------

typedef struct {
  float rate, decay, beta1, beta2, scale1, scale2, epsilon;
} Adam;

typedef struct {
  Matrix inputs, errors;
  float *inputs_packed, *errors_packed;  // in strips of columns, in panels
  float *w, *m, *v;
  num depth;  // in words
  Kind kind;
  Adam adam;
} Update;

// One step of Adam for `count` weights w, whose gradient is g.
INLINE void adam(const Adam *o, vec g, float *w, float *m, float *v, int count) {
  vec mean = o->beta1 * load_first(m, count) + (1 - o->beta1) * g;
  vec square = o->beta2 * load_first(v, count) + (1 - o->beta2) * (g * g);
  vec scaled = o->scale2 * square, positive = scaled + 1e-30f, weight = load_first(w, count);
  vec direction = o->scale1 * mean / (scaled * inverse_root(positive) + o->epsilon);
  store_first(m, mean, count);
  store_first(v, square, count);
  store_first(w, weight - o->rate * (direction + o->decay * weight), count);
}

static void pack_errors(const void *what, num panel) {
  const Update *u = what;
  pack(&u->errors, false, u->kind, 0, u->depth, panel * PANEL, u->errors_packed + panel * PANEL * u->depth);
}

// Pack a strip of the columns of the inputs: words of the same depth are neighbours, or in squares those of a column.
static void pack_inputs(const Update *u, num first, num columns, float *packed) {
  for (num c = 0; c < most_rows(u->kind); c += LANES) {
    if (!in_squares(u->kind)) {
      for (num k = 0; k < u->depth; k++)
        store_first(packed + k * TALL + c, across_rows(&u->inputs, k, first + c, within(columns - c), u->kind),
                    within(TALL - c));
      continue;
    }
    for (num k = 0; k < u->depth; k += LANES) {
      vec square[LANES];
      EACH(i, LANES) square[i] = across_rows(&u->inputs, k + i, first + c, within(columns - c), true);
      transpose(square);
      EACH(i, LANES) store(packed + (c + i) * u->depth + k, square[i]);
    }
  }
}

// Update some rows of the weights, so that weights and moments are read and written row by row.
static void rows_of_update(const void *what, num strip) {
  const Update *u = what;
  num above = u->errors.columns, most = most_rows(u->kind), first = strip * most;
  num tall = least(most, u->inputs.columns - first);
  bool squares = in_squares(u->kind);
  float *inputs = u->inputs_packed + first * u->depth;
  pack_inputs(u, first, tall, inputs);
  use_squares(u->kind, true);
  for (num j = 0; j < above; j += PANEL) {
    num corner = first * above + j, columns = least(PANEL, above - j);
    Soon weights = soon(u->w + corner, above, tall, PANEL, squares ? u->depth / LANES + 1 : TALL);
    weights.at[1] = u->m + corner, weights.at[2] = u->v + corner;
    float gradient[HAS_SQUARES ? 2 * LANES : TALL][PANEL] __attribute__((aligned(64)));
    Tile t = {.depth = u->depth, .a = inputs, .a_row = squares ? u->depth : 1, .a_step = TALL,
              .b = u->errors_packed + j * u->depth, .c = gradient[0], .c_row = PANEL, .columns = PANEL};
    multiply_tile(squares ? tall : TALL, wideness(columns), u->kind, &t, &weights);
    for (num r = 0; r < tall; r++)
      for (num c = 0; c < columns; c += LANES) {
        num at = corner + r * above + c;
        adam(&u->adam, load(gradient[r] + c), u->w + at, u->m + at, u->v + at, within(columns - c));
      }
  }
  use_squares(u->kind, false);
}

// --- Normalisation, noise and activation ---------------------------------------------------------------------

// The largest number of groups; the number of vectors side by side, so that neighbours in memory are read together; the
// number of rows by which prefetching is ahead.
enum { GROUPS = 8, SIDE = 4, BLOCK = SIDE * LANES, AHEAD = 6 };

// The arrays of a group of rows; NULL where it has none.
typedef struct {
  num rows;
  float *z;                           // normalised, with noise
  const float *noise;                 // standard normal
  float *mu, *sigma;                  // results of the forward pass; σ is an argument of the backward pass
  const float *d_z, *d_mu, *d_sigma;  // derivatives of the cost
} Group;

typedef struct {
  const float *a, *gamma, *beta, *d_h;
  float *h, *d_a, *d_gamma, *d_beta;
  num columns, groups;
  float noise_std, epsilon;
  Group group[GROUPS];
} Layer;

// z = (a − μ) / σ + noise and h = ReLU(γ(z + β)), of `side` vectors of n columns each, from column j on.
INLINE void normalise_columns(const Layer *l, num j, int side, int n) {
  num row = l->columns;
  const float *a = l->a + j;
  float *h = l->h + j;
  for (const Group *g = l->group; g < l->group + l->groups; g++) {
    vec mu[SIDE] = {0}, sigma[SIDE] = {0}, inverse[SIDE];
    for (num i = 0; i < g->rows; i++) {
      __builtin_prefetch(a + (i + AHEAD) * row), __builtin_prefetch(a + (i + AHEAD) * row + 32);
      EACH(s, side) mu[s] += load_first(a + i * row + s * LANES, n);
    }
    EACH(s, side) mu[s] /= (float)g->rows;
    vec rest[SIDE] = {0};  // the rounding error of the sum
    for (num i = 0; i < g->rows; i++) {
      EACH(s, side) {
        vec deviation = load_first(a + i * row + s * LANES, n) - mu[s];
        rest[s] += deviation;
        sigma[s] += deviation * deviation;
      }
    }
    EACH(s, side) {
      rest[s] /= (float)g->rows;
      mu[s] += rest[s];
      sigma[s] = square_root(sigma[s] / (float)g->rows - rest[s] * rest[s] + l->epsilon);
      inverse[s] = 1 / sigma[s];
      store_first(g->mu + j + s * LANES, mu[s], n);
      store_first(g->sigma + j + s * LANES, sigma[s], n);
    }
    for (num i = 0; i < g->rows; i++, a += row, h += row) {
      EACH(s, side) {
        num at = i * row + j + s * LANES;
        vec z = (load_first(a + s * LANES, n) - mu[s]) * inverse[s];
        if (g->noise != NULL) z += l->noise_std * load_first(g->noise + at, n);
        store_first(g->z + at, z, n);
        if (l->h != NULL) {
          vec active = load_first(l->gamma + j + s * LANES, n) * (z + load_first(l->beta + j + s * LANES, n));
          store_first(h + s * LANES, where(~(active <= 0), active), n);  // NaN stays NaN
        }
      }
    }
  }
}

// The derivatives of the cost with respect to a, γ and β. Every row moves μ by 1/n and σ by z/n.
INLINE void normalise_gradient_columns(const Layer *l, num j, int side, int n) {
  num row = l->columns;
  const float *d_h = l->d_h + j;
  float *d_a = l->d_a + j;
  vec d_gamma[SIDE] = {0}, d_beta[SIDE] = {0};
  for (const Group *g = l->group; g < l->group + l->groups; g++) {
    vec sum[SIDE] = {0}, sum_z[SIDE] = {0}, inverse[SIDE];
    EACH(s, side) inverse[s] = 1 / load_first(g->sigma + j + s * LANES, n);
    for (num i = 0; i < g->rows; i++) {
      num next = (i + AHEAD) * row + j;
      for (int part = 0; part < 64; part += 32) {
        __builtin_prefetch(g->z + next + part);
        if (g->noise != NULL) __builtin_prefetch(g->noise + next + part);
        if (g->d_z != NULL) __builtin_prefetch(g->d_z + next + part);
        if (l->d_h != NULL) __builtin_prefetch(d_h + (i + AHEAD) * row + part);
      }
      EACH(s, side) {
        num at = i * row + j + s * LANES;
        vec noisy = load_first(g->z + at, n), z = noisy, d_z = {0};
        if (g->d_z != NULL) d_z = load_first(g->d_z + at, n);
        if (g->noise != NULL) z -= l->noise_std * load_first(g->noise + at, n);
        if (l->d_h != NULL) {
          vec gamma = load_first(l->gamma + j + s * LANES, n), shifted = noisy + load_first(l->beta + j + s * LANES, n);
          vec passed = where(gamma * shifted > 0, load_first(d_h + i * row + s * LANES, n));
          d_gamma[s] += passed * shifted;
          d_beta[s] += passed;
          d_z += gamma * passed;
        }
        sum[s] += d_z;
        sum_z[s] += d_z * z;
        store_first(d_a + i * row + s * LANES, d_z, n);
      }
    }
    EACH(s, side) {  // from here on the sums are the derivatives through μ and σ
      vec d_mu = {0}, d_sigma = {0};
      if (g->d_mu != NULL) d_mu = load_first(g->d_mu + j + s * LANES, n);
      if (g->d_sigma != NULL) d_sigma = load_first(g->d_sigma + j + s * LANES, n);
      sum[s] = (d_mu - sum[s] * inverse[s]) / (float)g->rows;
      sum_z[s] = (d_sigma - sum_z[s] * inverse[s]) / (float)g->rows;
    }
    for (num i = 0; i < g->rows; i++, d_a += row, d_h += row) {
      EACH(s, side) {
        num at = i * row + j + s * LANES;
        vec z = load_first(g->z + at, n);
        if (g->noise != NULL) z -= l->noise_std * load_first(g->noise + at, n);
        store_first(d_a + s * LANES, load_first(d_a + s * LANES, n) * inverse[s] + sum_z[s] * z + sum[s], n);
      }
    }
  }
  if (l->d_h != NULL) {
    EACH(s, side) {
      store_first(l->d_gamma + j + s * LANES, d_gamma[s], n);
      store_first(l->d_beta + j + s * LANES, load_first(l->gamma + j + s * LANES, n) * d_beta[s], n);
    }
  }
}

#define IN_BLOCKS(do_columns)                                                 \
  num j = block * BLOCK, end = least(j + BLOCK, l->columns);                  \
  if (j + BLOCK == end) {                                                     \
    do_columns(l, j, SIDE, LANES);                                            \
  } else {                                                                    \
    for (; j + LANES <= end; j += LANES) do_columns(l, j, 1, LANES);          \
    if (j < end) do_columns(l, j, 1, end - j);                                \
  }

static void normalise_block(const void *what, num block) {
  const Layer *l = what;
  IN_BLOCKS(normalise_columns)
}

static void normalise_gradient_block(const void *what, num block) {
  const Layer *l = what;
  IN_BLOCKS(normalise_gradient_columns)
}

// --- The functions that XLA calls ----------------------------------------------------------------------------

// The kind of a product; the only attribute says whether its words are pairs.
static Kind kind(XLA_FFI_CallFrame *frame) { return !attribute(frame) ? FLOATS : squares_allowed() ? SQUARES : PAIRS; }

static Matrix matrix(XLA_FFI_CallFrame *frame, int i) {
  return (Matrix){argument(frame, i), length(frame, i, 0), length(frame, i, 1)};
}

static XLA_FFI_Error *multiply_all(XLA_FFI_CallFrame *frame, bool transposed) {
  if (asked_for_version(frame)) return NULL;
  Product p = {.a = matrix(frame, 0), .b = matrix(frame, 1), .c = result(frame, 0), .transposed = transposed,
               .kind = kind(frame)};
  p.columns = transposed ? p.b.rows : p.b.columns;
  p.depth = words_of(p.a.columns, p.kind);
  bool worth_it = is_long(p.a.rows * p.a.columns * p.columns);
  float *words = NULL;
  p.words = (float *)p.a.at, p.row = p.depth;
  if (p.kind) {
    p.row = parts_of(p.depth, LANES) * LANES;
    p.words = words = malloc(parts_of(p.a.rows, LANES) * LANES * p.row * sizeof(float) + 1);
    if (words == NULL) return out_of_memory(frame);
    share(frame, parts_of(p.a.rows, ROWS), worth_it, words_of_rows, &p);
  }
  share(frame, parts_of(p.columns, PANEL), worth_it, panel_of_product, &p);
  free(words);
  return NULL;
}

XLA_FFI_Error *product(XLA_FFI_CallFrame *frame) { return multiply_all(frame, false); }
XLA_FFI_Error *product_transposed(XLA_FFI_CallFrame *frame) { return multiply_all(frame, true); }

XLA_FFI_Error *update(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Update u = {.w = result(frame, 0), .m = result(frame, 1), .v = result(frame, 2), .inputs = matrix(frame, 3),
              .errors = matrix(frame, 4), .kind = kind(frame)};
  num rows = u.inputs.rows, below = u.inputs.columns, above = u.errors.columns;
  u.depth = words_of(rows, u.kind);
  memcpy(&u.adam, argument(frame, 5), sizeof u.adam);
  for (int i = 0; i < 3; i++)  // the results share the memory of the arguments, unless XLA had to copy
    if (result(frame, i) != argument(frame, i))
      memcpy(result(frame, i), argument(frame, i), below * above * sizeof(float));
  num most = most_rows(u.kind), strips = parts_of(below, most), panels = parts_of(above, PANEL);
  float *packed = malloc((strips * most + panels * PANEL) * u.depth * sizeof(float) + 1);
  if (packed == NULL) return out_of_memory(frame);
  u.inputs_packed = packed;
  u.errors_packed = packed + strips * most * u.depth;
  share(frame, panels, is_long(rows * below * above), pack_errors, &u);
  share(frame, strips, is_long(rows * below * above), rows_of_update, &u);
  free(packed);
  return NULL;
}

// Arguments: a, γ, β, the standard deviation of the noise, ε, then the noise of each group. An array without elements
// stands for none. Results: h, then z, μ and σ of each group.
XLA_FFI_Error *normalise(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Layer l = {.a = argument(frame, 0), .gamma = argument(frame, 1), .beta = argument(frame, 2),
             .noise_std = *argument(frame, 3), .epsilon = *argument(frame, 4), .h = result(frame, 0),
             .columns = length(frame, 0, 1), .groups = frame->args.size - 5};
  for (num g = 0; g < l.groups; g++) {
    l.group[g] = (Group){.noise = argument(frame, 5 + g), .z = result(frame, 1 + 3 * g), .mu = result(frame, 2 + 3 * g),
                         .sigma = result(frame, 3 + 3 * g), .rows = result_array(frame, 1 + 3 * g)->dims[0]};
  }
  share(frame, parts_of(l.columns, BLOCK), is_long(10 * length(frame, 0, 0) * l.columns), normalise_block, &l);
  return NULL;
}

// Arguments: γ, β, the standard deviation of the noise and the derivative with respect to h, then of each group z, σ, the
// noise and the derivatives with respect to z, μ and σ. Results: the derivatives with respect to a, γ and β.
XLA_FFI_Error *normalise_gradient(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Layer l = {.gamma = argument(frame, 0), .beta = argument(frame, 1), .noise_std = *argument(frame, 2),
             .d_h = argument(frame, 3), .d_a = result(frame, 0), .d_gamma = result(frame, 1),
             .d_beta = result(frame, 2), .groups = (frame->args.size - 4) / 6, .columns = length(frame, 4, 1)};
  num rows = 0;
  for (num g = 0; g < l.groups; g++) {
    int first = 4 + 6 * g;
    l.group[g] = (Group){.rows = length(frame, first, 0), .z = (float *)argument(frame, first),
                         .sigma = (float *)argument(frame, first + 1), .noise = argument(frame, first + 2),
                         .d_z = argument(frame, first + 3), .d_mu = argument(frame, first + 4),
                         .d_sigma = argument(frame, first + 5)};
    rows += l.group[g].rows;
  }
  share(frame, parts_of(l.columns, BLOCK), is_long(10 * rows * l.columns), normalise_gradient_block, &l);
  return NULL;
}
