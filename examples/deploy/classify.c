/* Classifies handwritten digits with a library that graphc wrote; there is no Python in here.

   classify PIXELS COUNT: reads COUNT times 64 floats from the file PIXELS, prints a digit a line,
   and on the error stream what it took, the median of some batches of calls. */

#define _POSIX_C_SOURCE 199309L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "digits.h"

enum { PIXELS = 64, BATCHES = 101, CALLS = 100 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int check(const digits_context *context, int status) {
  if (status == GRAPHC_OK) return 0;
  fprintf(stderr, "%s: %s\n", digits_status_text(status), digits_error(context));
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: classify PIXELS COUNT\n");
    return 2;
  }
  int64_t dims[DIGITS_DIMS], bytes = 0, count = atoll(argv[2]);
  float *pixels = malloc((size_t)count * PIXELS * sizeof *pixels);
  int64_t *found = malloc((size_t)count * sizeof *found);
  FILE *file = fopen(argv[1], "rb");
  if (!pixels || !found || !file ||
      fread(pixels, PIXELS * sizeof *pixels, (size_t)count, file) != (size_t)count) {
    fprintf(stderr, "%s does not hold %lld digits\n", argv[1], (long long)count);
    return 1;
  }
  fclose(file);

  double started = now();
  digits_context *context = NULL;
  if (check(context, digits_create(&context, NULL, 1))) return 1;
  double loaded = now();

  /* All digits at once: the library takes any batch. */
  dims[DIGITS_DIM_BATCH] = count;
  if (check(context, digits_workspace(context, dims, &bytes))) return 1;
  void *workspace = malloc((size_t)bytes + 1);
  const void *inputs[DIGITS_INPUTS] = {pixels};
  void *outputs[DIGITS_OUTPUTS] = {found};
  if (check(context, digits_run(context, dims, inputs, outputs, workspace, bytes))) return 1;
  for (int64_t i = 0; i < count; i++) printf("%lld\n", (long long)found[i]);

  /* And one at a time, to see what a call takes. */
  dims[DIGITS_DIM_BATCH] = 1;
  double took[BATCHES];
  for (int batch = 0; batch < BATCHES; batch++) {
    double before = now();
    for (int i = 0; i < CALLS; i++)
      if (check(context, digits_run(context, dims, inputs, outputs, workspace, bytes))) return 1;
    took[batch] = (now() - before) / CALLS;
  }
  qsort(took, BATCHES, sizeof *took, by_size);
  fprintf(stderr, "context %.0f call %.2f\n", (loaded - started) * 1e6, took[BATCHES / 2] * 1e6);

  free(workspace);
  digits_destroy(context);
  free(found);
  free(pixels);
  return 0;
}
