// The matrix products of a training step, and what is done to rows between them. laddernet/native.py says what each
// function computes.

#include "native.h"

// --- Tiles ---------------------------------------------------------------------------------------------------

// A tile of the result, TALL rows of WIDE vectors, is kept in registers: as many as there are, less what is loaded.
#if defined(__AVX512F__)
enum { TALL = 12 };
#elif defined(__AVX__)
enum { TALL = 6 };
#else
enum { TALL = 8 };
#endif
enum { WIDE = 2, PANEL = WIDE * LANES, DEPTH = 320 };

// What will soon be wanted: TALL rows, each a panel wide, at up to three places.
typedef struct {
  const float *at[3];
  num row;
} Soon;

// c = a b, or c += a b, for `tall` rows of a and `wide` vectors of b. From a row of a to the next it is a_row, from an
// element of it to the next a_step. Meanwhile what is wanted soon is brought near, a row at a time: more at once would
// keep the processor from bringing what is wanted now.
INLINE void multiply(int tall, int wide, num depth, const float *a, num a_row, num a_step, const float *b, num b_step,
                     float *c, num c_row, bool add, Soon soon) {
  vec sum[12][WIDE];  // the most that is asked for
  EACH(i, tall) EACH(j, wide) sum[i][j] = (vec){0};
  for (num row = 0; row < TALL; row++) {
    EACH(n, 3) {
      if (soon.at[n] == NULL) continue;
      EACH(i, PANEL / 16 + 1) __builtin_prefetch(soon.at[n] + row * soon.row + i * 16, 0, 2);
    }
    for (num k = depth * (row + 1) / TALL - depth * row / TALL; k > 0; k--, a += a_step, b += b_step) {
      vec right[WIDE];
      EACH(j, wide) right[j] = load(b + j * LANES);
      EACH(i, tall) EACH(j, wide) sum[i][j] += a[i * a_row] * right[j];
    }
  }
  if (add)
    EACH(i, tall) EACH(j, wide) sum[i][j] += load(c + i * c_row + j * LANES);
  EACH(i, tall) EACH(j, wide) store(c + i * c_row + j * LANES, sum[i][j]);
}

// How many of the rows that are left the next tile takes: a number that `multiply` is compiled for.
static int tallness(num rows) {
  if (rows >= TALL) return TALL;
  for (int n = 8; n > 1; n /= 2)
    if (n < TALL && rows >= n) return n;
  return 1;
}

#define FOR_EACH_SIZE(tall, wide, call)                       \
  if (wide == 2) {                                            \
    if (tall == TALL) { enum { T = TALL, W = 2 }; call; }     \
    else if (tall == 8) { enum { T = 8, W = 2 }; call; }      \
    else if (tall == 4) { enum { T = 4, W = 2 }; call; }      \
    else if (tall == 2) { enum { T = 2, W = 2 }; call; }      \
    else { enum { T = 1, W = 2 }; call; }                     \
  } else {                                                    \
    if (tall == TALL) { enum { T = TALL, W = 1 }; call; }     \
    else if (tall == 8) { enum { T = 8, W = 1 }; call; }      \
    else if (tall == 4) { enum { T = 4, W = 1 }; call; }      \
    else if (tall == 2) { enum { T = 2, W = 1 }; call; }      \
    else { enum { T = 1, W = 1 }; call; }                     \
  }

// Rows of a as they lie, b packed.
static __attribute__((noinline)) void multiply_rows(int tall, int wide, num depth, const float *a, num a_row,
                                                    const float *b, float *c, num c_row, bool add, Soon soon) {
  FOR_EACH_SIZE(tall, wide, multiply(T, W, depth, a, a_row, 1, b, W * LANES, c, c_row, add, soon))
}

// TALL columns of a, packed, for rows.
static __attribute__((noinline)) void multiply_columns(int wide, num depth, const float *a, const float *b, float *c,
                                                       Soon soon) {
  if (wide == 2)
    multiply(TALL, 2, depth, a, 1, TALL, b, 2 * LANES, c, PANEL, false, soon);
  else
    multiply(TALL, 1, depth, a, 1, TALL, b, LANES, c, PANEL, false, soon);
}

// The columns of a panel, as vectors: a last one of few columns has but one.
static int wideness(num columns) { return columns > LANES ? WIDE : 1; }

// --- Products ------------------------------------------------------------------------------------------------

typedef struct {
  const float *a, *b;
  float *c;
  num rows, depth, columns;
  bool transposed;  // b lies the other way round
} Product;

// Rows and columns of a square exchanged: riffled as often as a row's length is a power of two.
INLINE void transpose(vec square[LANES]) {
#if defined(__clang__)
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < i; j++) {
      float other = square[i][j];
      square[i][j] = square[j][i];
      square[j][i] = other;
    }
#else
  ivec low, high;
  EACH(i, LANES) {
    low[i] = i / 2 + (i % 2) * LANES;
    high[i] = low[i] + LANES / 2;
  }
  UNROLL for (int times = 1; times < LANES; times *= 2) {
    vec riffled[LANES];
    EACH(i, LANES / 2) {
      riffled[2 * i] = __builtin_shuffle(square[i], square[i + LANES / 2], low);
      riffled[2 * i + 1] = __builtin_shuffle(square[i], square[i + LANES / 2], high);
    }
    EACH(i, LANES) square[i] = riffled[i];
  }
#endif
}

// `depth` rows of a panel, from row k and column j of b on, packed one after the other and filled up with zeros.
static void pack(const Product *p, num k, num depth, num j, num columns, float *packed) {
  num width = wideness(columns) * LANES;
  if (!p->transposed) {
    const float *from = p->b + k * p->columns + j;
    for (num i = 0; i < depth; i++, from += p->columns, packed += width) {
      if (columns == PANEL) {
        EACH(v, WIDE) store(packed + v * LANES, load(from + v * LANES));
      } else {
        memset(packed, 0, width * sizeof(float));
        memcpy(packed, from, columns * sizeof(float));
      }
    }
    return;
  }
  for (num first = 0; first < width; first += LANES) {
    num rows = least(LANES, columns - first);
    const float *from = p->b + (j + first) * p->depth + k;
    num i = 0;
    if (rows == LANES) {
      for (; i + LANES <= depth; i += LANES) {
        vec square[LANES];
        EACH(r, LANES) square[r] = load(from + r * p->depth + i);
        transpose(square);
        EACH(r, LANES) store(packed + (i + r) * width + first, square[r]);
      }
    }
    for (; i < depth; i++)
      for (num r = 0; r < LANES; r++) packed[i * width + first + r] = r < rows ? from[r * p->depth + i] : 0;
  }
}

// The `part`-th of so many parts of what `pack` will read.
static Soon what_follows(const Product *p, num k, num depth, num j, num part, num parts) {
  Soon soon = {.row = p->transposed ? p->depth : p->columns};
  for (num n = 0; n < 3 && j < p->columns; n++) {
    num row = (p->transposed ? n : n * parts + part) * TALL, column = p->transposed ? part * PANEL : 0;
    if (row < (p->transposed ? PANEL : depth) && column < depth)
      soon.at[n] = p->b + (p->transposed ? (j + row) * p->depth + k + column : (k + row) * p->columns + j);
  }
  return soon;
}

static void panel_of_product(const void *what, num panel) {
  const Product *p = what;
  float packed[DEPTH * PANEL] __attribute__((aligned(64)));
  num j = panel * PANEL, columns = least(PANEL, p->columns - j);
  int wide = wideness(columns);
  num blocks = p->depth > 0 ? (p->depth + DEPTH - 1) / DEPTH : 1;
  for (num block = 0; block < blocks; block++) {
    num k = p->depth * block / blocks, depth = p->depth * (block + 1) / blocks - k;
    pack(p, k, depth, j, columns, packed);
    num next = block + 1 < blocks ? p->depth * (block + 1) / blocks : 0;
    num next_depth = p->depth * ((block + 1) % blocks + 1) / blocks - next, next_j = next > 0 ? j : j + PANEL;
    num parts = (p->rows + TALL - 1) / TALL;
    for (num i = 0; i < p->rows;) {
      int tall = tallness(p->rows - i);
      Soon soon = what_follows(p, next, next_depth, next_j, i / TALL, parts);
      const float *from = p->a + i * p->depth + k;
      float *to = p->c + i * p->columns + j;
      if (columns == wide * LANES) {
        multiply_rows(tall, wide, depth, from, p->depth, packed, to, p->columns, block > 0, soon);
      } else {
        float tile[TALL][PANEL];
        multiply_rows(tall, wide, depth, from, p->depth, packed, tile[0], PANEL, false, soon);
        for (int r = 0; r < tall; r++)
          for (num n = 0; n < columns; n++)
            to[r * p->columns + n] = tile[r][n] + (block > 0 ? to[r * p->columns + n] : 0);
      }
      i += tall;
    }
  }
}

// --- Products of which weights learn -------------------------------------------------------------------------

typedef struct {
  float rate, decay, beta1, beta2, scale1, scale2, epsilon;
} Adam;

typedef struct {
  const float *inputs, *errors;
  float *inputs_packed, *errors_packed;  // strips of columns, panels
  float *w, *m, *v;
  num rows, below, above;
  Adam adam;
} Update;

// One step of Adam for the weights w, whose gradient is g.
INLINE void adam(const Adam *o, vec g, float *w, float *m, float *v) {
  vec mean = o->beta1 * load(m) + (1 - o->beta1) * g, square = o->beta2 * load(v) + (1 - o->beta2) * (g * g);
  vec scaled = o->scale2 * square, positive = scaled + 1e-30f;
  vec direction = o->scale1 * mean / (scaled * inverse_root(positive) + o->epsilon);
  store(m, mean);
  store(v, square);
  store(w, load(w) - o->rate * (direction + o->decay * load(w)));
}

static void pack_errors(const void *what, num panel) {
  const Update *u = what;
  num j = panel * PANEL;
  Product p = {.b = u->errors, .columns = u->above};
  pack(&p, 0, u->rows, j, least(PANEL, u->above - j), u->errors_packed + panel * PANEL * u->rows);
}

// The update of TALL rows of the weights, so that weights and moments are read and written row by row.
static void rows_of_update(const void *what, num strip) {
  const Update *u = what;
  num first = strip * TALL, tall = least(TALL, u->below - first);
  float *inputs = u->inputs_packed + first * u->rows;
  for (num k = 0; k < u->rows; k++)
    for (num r = 0; r < TALL; r++) inputs[k * TALL + r] = r < tall ? u->inputs[k * u->below + first + r] : 0;
  for (num j = 0; j < u->above; j += PANEL) {
    num corner = first * u->above + j, columns = least(PANEL, u->above - j);
    Soon soon = {{u->w + corner, u->m + corner, u->v + corner}, u->above};
    float gradient[TALL][PANEL];
    multiply_columns(wideness(columns), u->rows, inputs, u->errors_packed + j * u->rows, gradient[0], soon);
    for (num r = 0; r < tall; r++) {
      num at = corner + r * u->above, c = 0;
      for (; c + LANES <= columns; c += LANES)
        adam(&u->adam, load(gradient[r] + c), u->w + at + c, u->m + at + c, u->v + at + c);
      if (c < columns) {  // less than a vector is left
        float last[3][LANES] = {0}, *of[3] = {u->w + at + c, u->m + at + c, u->v + at + c};
        for (int n = 0; n < 3; n++) memcpy(last[n], of[n], (columns - c) * sizeof(float));
        adam(&u->adam, load(gradient[r] + c), last[0], last[1], last[2]);
        for (int n = 0; n < 3; n++) memcpy(of[n], last[n], (columns - c) * sizeof(float));
      }
    }
  }
}

// --- Rows between products -----------------------------------------------------------------------------------

// How many groups of rows there may be; how many vectors side by side, so that what lies together in memory is read
// together; how many rows ahead what comes next is asked for.
enum { GROUPS = 8, SIDE = 4, BLOCK = SIDE * LANES, AHEAD = 6 };

// What a group of rows has of each kind; NULL where it has none.
typedef struct {
  num rows;
  float *z;                           // normalised, with noise
  const float *noise;                 // standard normal
  float *mu, *sigma;                  // results of the forward pass; σ is given to the other
  const float *d_z, *d_mu, *d_sigma;  // derivatives of the cost
} Group;

typedef struct {
  const float *a, *gamma, *beta, *d_h;
  float *h, *d_a, *d_gamma, *d_beta;
  num columns, groups;
  float noise_std, epsilon;
  Group group[GROUPS];
} Layer;

// `side` vectors of n columns each, from column j on: z = (a − μ) / σ + noise, h = ReLU(γ(z + β)).
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
    vec rest[SIDE] = {0};  // by how much the sum of many numbers was rounded
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
    EACH(s, side) {  // from here on the sums are what goes through μ and σ
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

static num blocks_of(num columns) { return (columns + BLOCK - 1) / BLOCK; }

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

// --- How far reconstructions are off -------------------------------------------------------------------------

// What a layer has: ẑ of one or more copies of the rows, one below the other, and z of the rows. Without μ and σ they
// are 0 and 1, and z is not to be learned from.
typedef struct {
  const float *z_hat, *z, *mu, *sigma;
  float *squares;  // the sum of each column
  float *d_z_hat, *d_z, *d_mu, *d_sigma;
  num rows, copies, columns;
  float d;  // the cost's derivative by a square
} Compared;

INLINE void scale_of_columns(const Compared *l, num j, int side, int n, vec *mu, vec *inverse) {
  EACH(s, side) {
    mu[s] = (vec){0};
    inverse[s] = (vec){0} + 1;
    if (l->mu == NULL) continue;
    mu[s] = load_first(l->mu + j + s * LANES, n);
    inverse[s] = 1 / load_first(l->sigma + j + s * LANES, n);
  }
}

INLINE void squares_of_columns(const Compared *l, num j, int side, int n) {
  vec mu[SIDE], inverse[SIDE], sum[SIDE] = {0};
  scale_of_columns(l, j, side, n, mu, inverse);
  for (num i = 0; i < l->rows; i++) {
    for (num copy = 0; copy < l->copies; copy++) {
      const float *z_hat = l->z_hat + (copy * l->rows + i) * l->columns + j, *z = l->z + i * l->columns + j;
      EACH(s, side) {
        vec off = (load_first(z_hat + s * LANES, n) - mu[s]) * inverse[s] - load_first(z + s * LANES, n);
        sum[s] += off * off;
      }
    }
  }
  EACH(s, side) store_first(l->squares + j + s * LANES, sum[s], n);
}

INLINE void squares_gradient_columns(const Compared *l, num j, int side, int n) {
  vec mu[SIDE], inverse[SIDE], d_mu[SIDE] = {0}, d_sigma[SIDE] = {0};
  scale_of_columns(l, j, side, n, mu, inverse);
  for (num i = 0; i < l->rows; i++) {
    vec d_z[SIDE] = {0};
    for (num copy = 0; copy < l->copies; copy++) {
      num at = (copy * l->rows + i) * l->columns + j;
      EACH(s, side) {
        vec normal = (load_first(l->z_hat + at + s * LANES, n) - mu[s]) * inverse[s];
        vec d = 2 * l->d * (normal - load_first(l->z + i * l->columns + j + s * LANES, n)), d_z_hat = d * inverse[s];
        d_z[s] -= d;
        d_mu[s] -= d_z_hat;
        d_sigma[s] -= d_z_hat * normal;
        store_first(l->d_z_hat + at + s * LANES, d_z_hat, n);
      }
    }
    if (l->mu == NULL) continue;
    EACH(s, side) store_first(l->d_z + i * l->columns + j + s * LANES, d_z[s], n);
  }
  if (l->mu == NULL) return;
  EACH(s, side) {
    store_first(l->d_mu + j + s * LANES, d_mu[s], n);
    store_first(l->d_sigma + j + s * LANES, d_sigma[s], n);
  }
}

// The layer that a block of columns is of.
static const Compared *layer_of(const Compared *l, num *block) {
  for (; *block >= blocks_of(l->columns); l++) *block -= blocks_of(l->columns);
  return l;
}

static void squares_block(const void *what, num block) {
  const Compared *l = layer_of(what, &block);
  IN_BLOCKS(squares_of_columns)
}

static void squares_gradient_block(const void *what, num block) {
  const Compared *l = layer_of(what, &block);
  IN_BLOCKS(squares_gradient_columns)
}

// --- What XLA calls ------------------------------------------------------------------------------------------

static void multiply_all(XLA_FFI_CallFrame *frame, bool transposed) {
  Product p = {.a = argument(frame, 0),
               .b = argument(frame, 1),
               .c = result(frame, 0),
               .rows = length(frame, 0, 0),
               .depth = length(frame, 0, 1),
               .columns = length(frame, 1, !transposed),
               .transposed = transposed};
  share(frame, (p.columns + PANEL - 1) / PANEL, is_long(p.rows * p.depth * p.columns), panel_of_product, &p);
}

XLA_FFI_Error *product(XLA_FFI_CallFrame *frame) {
  if (!asked_for_version(frame)) multiply_all(frame, false);
  return NULL;
}

XLA_FFI_Error *product_transposed(XLA_FFI_CallFrame *frame) {
  if (!asked_for_version(frame)) multiply_all(frame, true);
  return NULL;
}

XLA_FFI_Error *update(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Update u = {.w = result(frame, 0),
              .m = result(frame, 1),
              .v = result(frame, 2),
              .inputs = argument(frame, 3),
              .errors = argument(frame, 4),
              .rows = length(frame, 3, 0),
              .below = length(frame, 3, 1),
              .above = length(frame, 4, 1)};
  memcpy(&u.adam, argument(frame, 5), sizeof u.adam);
  for (int i = 0; i < 3; i++)  // which lie in their places already, unless XLA had to copy
    if (result(frame, i) != argument(frame, i))
      memcpy(result(frame, i), argument(frame, i), u.below * u.above * sizeof(float));
  num strips = (u.below + TALL - 1) / TALL, panels = (u.above + PANEL - 1) / PANEL;
  float *packed = malloc((strips * TALL + panels * PANEL) * u.rows * sizeof(float) + 1);
  if (packed == NULL) return out_of_memory(frame);
  u.inputs_packed = packed;
  u.errors_packed = packed + strips * TALL * u.rows;
  bool worth_it = is_long(u.rows * u.below * u.above);
  share(frame, panels, worth_it, pack_errors, &u);
  share(frame, strips, worth_it, rows_of_update, &u);
  free(packed);
  return NULL;
}

// Of a and γ, β, noise's standard deviation, ε, then the noise of each group; an array without elements is none.
XLA_FFI_Error *normalise(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Layer l = {.a = argument(frame, 0),
             .gamma = argument(frame, 1),
             .beta = argument(frame, 2),
             .noise_std = *argument(frame, 3),
             .epsilon = *argument(frame, 4),
             .h = result(frame, 0),
             .columns = length(frame, 0, 1),
             .groups = frame->args.size - 5};
  for (num g = 0; g < l.groups; g++) {
    l.group[g] = (Group){.noise = argument(frame, 5 + g),
                         .z = result(frame, 1 + 3 * g),
                         .mu = result(frame, 2 + 3 * g),
                         .sigma = result(frame, 3 + 3 * g),
                         .rows = wanted(frame, 1 + 3 * g)->dims[0]};
  }
  share(frame, blocks_of(l.columns), is_long(10 * length(frame, 0, 0) * l.columns), normalise_block, &l);
  return NULL;
}

// Of γ, β, noise's standard deviation and the derivative of h, then of each group z, σ, noise and the derivatives of
// z, μ and σ.
XLA_FFI_Error *normalise_gradient(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Layer l = {.gamma = argument(frame, 0),
             .beta = argument(frame, 1),
             .noise_std = *argument(frame, 2),
             .d_h = argument(frame, 3),
             .d_a = result(frame, 0),
             .d_gamma = result(frame, 1),
             .d_beta = result(frame, 2),
             .groups = (frame->args.size - 4) / 6,
             .columns = length(frame, 4, 1)};
  num rows = 0;
  for (num g = 0; g < l.groups; g++) {
    int first = 4 + 6 * g;
    l.group[g] = (Group){.rows = length(frame, first, 0),
                         .z = (float *)argument(frame, first),
                         .sigma = (float *)argument(frame, first + 1),
                         .noise = argument(frame, first + 2),
                         .d_z = argument(frame, first + 3),
                         .d_mu = argument(frame, first + 4),
                         .d_sigma = argument(frame, first + 5)};
    rows += l.group[g].rows;
  }
  share(frame, blocks_of(l.columns), is_long(10 * rows * l.columns), normalise_gradient_block, &l);
  return NULL;
}

// Of each layer ẑ, z, μ and σ.
static Compared compared(XLA_FFI_CallFrame *frame, int first) {
  num rows = length(frame, first + 1, 0);
  return (Compared){.z_hat = argument(frame, first),
                    .z = argument(frame, first + 1),
                    .mu = argument(frame, first + 2),
                    .sigma = argument(frame, first + 3),
                    .rows = rows,
                    .copies = length(frame, first, 0) / rows,
                    .columns = length(frame, first, 1)};
}

XLA_FFI_Error *mean_squares(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  num layers = frame->args.size / 4, blocks = 0, columns = 0, numbers = 0;
  for (num l = 0; l < layers; l++) columns += length(frame, 4 * l, 1);
  Compared *all = malloc(layers * sizeof *all + columns * sizeof(float));
  if (all == NULL) return out_of_memory(frame);
  float *squares = (float *)(all + layers);
  for (num l = 0; l < layers; l++) {
    all[l] = compared(frame, 4 * l);
    all[l].squares = squares;
    squares += all[l].columns;
    blocks += blocks_of(all[l].columns);
    numbers += all[l].copies * all[l].rows * all[l].columns;
  }
  share(frame, blocks, is_long(5 * numbers), squares_block, all);
  for (num l = 0; l < layers; l++) {
    double sum = 0;
    for (num j = 0; j < all[l].columns; j++) sum += all[l].squares[j];
    result(frame, 0)[l] = sum / ((double)all[l].copies * all[l].rows * all[l].columns);
  }
  free(all);
  return NULL;
}

// The derivatives by ẑ, z, μ and σ of each layer, of the cost's derivatives by the means, which come last.
XLA_FFI_Error *mean_squares_gradient(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  num layers = frame->args.size / 4, blocks = 0, numbers = 0;
  Compared *all = malloc(layers * sizeof *all);
  if (all == NULL) return out_of_memory(frame);
  for (num l = 0; l < layers; l++) {
    all[l] = compared(frame, 4 * l);
    all[l].d_z_hat = result(frame, 4 * l);
    all[l].d_z = result(frame, 4 * l + 1);
    all[l].d_mu = result(frame, 4 * l + 2);
    all[l].d_sigma = result(frame, 4 * l + 3);
    num of_layer = all[l].copies * all[l].rows * all[l].columns;
    all[l].d = argument(frame, 4 * layers)[l] / of_layer;
    blocks += blocks_of(all[l].columns);
    numbers += of_layer;
  }
  share(frame, blocks, is_long(10 * numbers), squares_gradient_block, all);
  free(all);
  return NULL;
}
