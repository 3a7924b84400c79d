/* SQ(2) with N FCFS servers of unit speed and Poisson arrivals, in plain C, for the side-by-side run of simulation.py.
 *
 *     sq_simulator ring|heap servers load jobs scv seed
 *
 * ring   departure times in a ring per server, looked at only when the server is sampled: the algorithm of lbkit
 * heap   the textbook: a binary heap of departure events, queue lengths kept up to date
 * scv    1: exponential sizes; above: hyperexponential with balanced work, unit mean
 *
 * Random numbers are xoshiro256++, one stream each for gaps, sizes and choices. Every job's wait and response time enters
 * sums, sums of squares and a histogram of 64 bins for each power of two. Prints seconds, mean wait, mean response.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { uint64_t a, b, c, d; } Rng;

static inline uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline uint64_t draw(Rng *r)
{
    uint64_t word = rotate(r->a + r->d, 23) + r->a, moved = r->b << 17;
    r->c ^= r->a; r->d ^= r->b; r->b ^= r->c; r->a ^= r->d; r->c ^= moved; r->d = rotate(r->d, 45);
    return word;
}

static Rng seeded(uint64_t seed)
{
    uint64_t s[4];
    for (int i = 0; i < 4; i++) {                       /* splitmix64 */
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        s[i] = z ^ (z >> 31);
    }
    return (Rng){s[0], s[1], s[2], s[3]};
}

static inline double uniform(Rng *r) { return ((draw(r) >> 11) + 0.5) * 0x1p-53; }
static inline double exponential(Rng *r) { return -log(uniform(r)); }

static inline uint32_t below(Rng *r, uint32_t n)
{
    uint64_t word = (draw(r) >> 32) * n;
    if ((uint32_t)word < n)
        for (uint32_t least = -n % n; (uint32_t)word < least;) word = (draw(r) >> 32) * n;
    return word >> 32;
}

#define BINS 4096
static double sums[4];
static int64_t wait_bins[BINS], response_bins[BINS];

static inline void count(int64_t *bins, double x)
{
    int64_t bits, lowest = (1023 - 30) * 64;
    memcpy(&bits, &x, 8);
    bits = (bits >> 46) - lowest;
    bins[bits < 0 ? 0 : bits >= BINS ? BINS - 1 : bits]++;
}

static inline void record(double wait, double response)
{
    sums[0] += wait; sums[1] += wait * wait; sums[2] += response; sums[3] += response * response;
    count(wait_bins, wait); count(response_bins, response);
}

#ifndef PLACES
#define PLACES 14
#endif
typedef struct { uint32_t head, length; double since, leaves[PLACES]; } Server;   /* two cache lines */
static double levels[PLACES + 1];

static inline uint32_t drop(Server *s, double now)
{
    while (s->length && s->leaves[s->head] <= now) {
        levels[s->length--] += s->leaves[s->head];
        s->since = s->leaves[s->head];
        s->head = s->head + 1 == PLACES ? 0 : s->head + 1;
    }
    return s->length;
}

static double (*events);                                  /* the heap: times and their servers */
static uint32_t *owner, size;

static void push(double t, uint32_t s)
{
    uint32_t at = size++;
    for (; at && events[(at - 1) / 2] > t; at = (at - 1) / 2) { events[at] = events[(at - 1) / 2]; owner[at] = owner[(at - 1) / 2]; }
    events[at] = t; owner[at] = s;
}

static uint32_t pop(void)
{
    uint32_t top = owner[0], at = 0, s = owner[--size];
    double t = events[size];
    for (uint32_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && events[child + 1] < events[child]) child++;
        if (events[child] >= t) break;
        events[at] = events[child]; owner[at] = owner[child];
    }
    events[at] = t; owner[at] = s;
    return top;
}

int main(int n, char **argument)
{
    if (n != 7) return fprintf(stderr, "usage: sq_simulator ring|heap servers load jobs scv seed\n"), 2;
    int heap = !strcmp(argument[1], "heap");
    uint32_t servers = strtoul(argument[2], 0, 10);
    double load = atof(argument[3]), jobs = atof(argument[4]), scv = atof(argument[5]), seed = atof(argument[6]);
    double p = (1 + sqrt((scv - 1) / (scv + 1))) / 2, mean[2] = {0.5 / p, scv > 1 ? 0.5 / (1 - p) : 1};
    Rng gaps = seeded(3 * seed), sizes = seeded(3 * seed + 1), choices = seeded(3 * seed + 2);
    Server *ring = calloc(servers, sizeof *ring);
    uint32_t *length = calloc(servers, sizeof *length), (*backlog)[1] = 0;
    double *last = calloc(servers, sizeof *last), now = 0, gap = 1 / (load * servers);
    (void)backlog;
    events = malloc(sizeof *events * 64 * servers); owner = malloc(sizeof *owner * 64 * servers);

    clock_t start = clock();
    for (int64_t i = 0; i < jobs; i++) {
        now += exponential(&gaps) * gap;
        double job = scv > 1 ? exponential(&sizes) * mean[uniform(&sizes) > p] : exponential(&sizes), wait = 0;
        uint32_t a = below(&choices, servers), b = below(&choices, servers - 1);
        b += b >= a;
        if (heap) {
            while (size && events[0] <= now) length[pop()]--;
            uint32_t s = length[b] < length[a] ? b : a;
            if (length[s]++) wait = last[s] - now;
            last[s] = now + wait + job;
            if (size == 64 * servers) return fprintf(stderr, "the heap is full\n"), 1;
            push(last[s], s);
        } else {
            uint32_t la = drop(ring + a, now), lb = drop(ring + b, now), l = lb < la ? lb : la;
            Server *s = ring + (lb < la ? b : a);
            if (l) wait = s->leaves[s->head + l - 1 < PLACES ? s->head + l - 1 : s->head + l - 1 - PLACES] - now;
            else s->since = now;
            s->leaves[s->head + l < PLACES ? s->head + l : s->head + l - PLACES] = now + wait + job;
            levels[++s->length] -= now;
            if (s->length == PLACES) return fprintf(stderr, "a ring is full\n"), 1;
        }
        record(wait, wait + job);
    }
    printf("%.6f %.6f %.6f\n", (double)(clock() - start) / CLOCKS_PER_SEC, sums[0] / jobs, sums[2] / jobs);
    return 0;
}
