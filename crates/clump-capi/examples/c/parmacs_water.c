/* Molecules of water in a periodic box, in the style of PARMACS programs. The box is divided into
 * cells no narrower than the cut-off. A worker has cells: it moves the molecules in them, and adds
 * the forces of pairs in them and in cells around, under a lock for each cell. Lengths are in nm,
 * times in ps, masses in u, energies in kJ/mol. Built as parmacs_tasks.c is, with -lm.
 *
 *   ./water [WORKERS [MOLECULES [STEPS]]]        2 workers, 512 molecules, 6 steps
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

MAIN_ENV

#define SPACING 0.36
#define STEP 0.0002
#define LOCKS 64
#define MAX_STEPS 1000
/* Largest relative difference to all pairs, by rounding, and largest change of the energy. */
#define MAX_DIFFERENCE 1e-9
#define MAX_DRIFT 1e-3

/* Three numbers for each of O, H and H. */
typedef struct {
    double at[9], speed[9], force[9];
} molecule;

typedef struct {
    LOCKDEC(id_lock)
    LOCKDEC(sum_lock)
    ALOCKDEC(cell_locks, LOCKS)
    BARDEC(step)
    int id;
    unsigned long began, ended;
    double energy[MAX_STEPS];
    /* The first molecule of each cell and the next of each molecule; -1 at the end. */
    int *first, *next;
    molecule *all;
} shared;

static shared *gl;
static int workers, count, steps, in_row, cells;
static double box, cut_off;

static const double mass[3] = {15.9994, 1.008, 1.008}, charge[3] = {-0.82, 0.41, 0.41};

/* Adds the forces within a molecule, which its springs make, and returns their energy. */
static double springs(const double *at, double *force) {
    static const int ends[3][2] = {{0, 1}, {0, 2}, {1, 2}};
    static const double length[3] = {0.1, 0.1, 0.1633}, stiffness[3] = {4e5, 4e5, 1e5};
    double energy = 0;
    int s, d;
    for (s = 0; s < 3; s++) {
        const double *a = at + 3 * ends[s][0], *b = at + 3 * ends[s][1];
        double way[3], square = 0, distance, more;
        for (d = 0; d < 3; d++) {
            way[d] = b[d] - a[d];
            square += way[d] * way[d];
        }
        distance = sqrt(square);
        more = distance - length[s];
        energy += stiffness[s] * more * more / 2;
        for (d = 0; d < 3; d++) {
            force[3 * ends[s][0] + d] += stiffness[s] * more / distance * way[d];
            force[3 * ends[s][1] + d] -= stiffness[s] * more / distance * way[d];
        }
    }
    return energy;
}

/* Adds the forces between two molecules that see each other, and returns their energy: charges, and
 * the potential of Lennard and Jones between both O. It fades from 0.8 of the cut-off on. */
static double pair(const double *a, const double *b, double *on_a, double *on_b) {
    double shift[3], way[3], square = 0, inner = .64 * cut_off * cut_off, energy = 0, six, share, x;
    double forces[3] = {0, 0, 0}, range = cut_off * cut_off - inner;
    int d, i, j;
    for (d = 0; d < 3; d++) {
        shift[d] = -box * floor((b[d] - a[d]) / box + .5);
        way[d] = b[d] - a[d] + shift[d];
        square += way[d] * way[d];
    }
    if (square >= cut_off * cut_off) return 0;
    x = square > inner ? (square - inner) / range : 0;
    share = 1 - x * x * (3 - 2 * x);
    six = pow(0.3166, 6) / (square * square * square);
    energy = 4 * 0.65 * six * (six - 1);
    for (d = 0; d < 3; d++) forces[d] = -24 * 0.65 * six * (2 * six - 1) / square * share * way[d];
    for (d = 0; d < 3; d++) on_a[d] += forces[d], on_b[d] -= forces[d];
    for (i = 0; i < 3; i++)
        for (j = 0; j < 3; j++) {
            double to[3], far = 0, one;
            for (d = 0; d < 3; d++) {
                to[d] = b[3 * j + d] - a[3 * i + d] + shift[d];
                far += to[d] * to[d];
            }
            one = 138.935 * charge[i] * charge[j] / sqrt(far);
            energy += one;
            for (d = 0; d < 3; d++) {
                on_a[3 * i + d] -= one / far * share * to[d];
                on_b[3 * j + d] += one / far * share * to[d];
            }
        }
    for (d = 0; d < 3; d++) {
        double fading = -12 * x * (1 - x) / range * energy * way[d];
        on_a[d] += fading;
        on_b[d] -= fading;
    }
    return energy * share;
}

/* Speeds up a molecule for half a step; returns its energy of motion. */
static double kick(molecule *m) {
    double energy = 0;
    int k;
    for (k = 0; k < 9; k++) {
        m->speed[k] += m->force[k] / mass[k / 3] * (STEP / 2);
        energy += mass[k / 3] * m->speed[k] * m->speed[k] / 2;
    }
    return energy;
}

static void move(molecule *m) {
    int k;
    for (k = 0; k < 9; k++) {
        m->at[k] += m->speed[k] * STEP;
        m->force[k] = 0;
    }
}

/* Puts a molecule on a lattice, turned and thrown at random. */
static void place(molecule *m, int number) {
    static const double shape[9] = {0, 0, 0, .0816, .0577, 0, -.0816, .0577, 0};
    uint64_t bits = (uint64_t)(number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    double angle = (bits >> 40) * 1e-3;
    int k, lattice = (int)floor(box / SPACING + .5);
    for (k = 0; k < 9; k++) {
        double along[3];
        int d = k % 3, base = k - d;
        along[0] = shape[base] * cos(angle) - shape[base + 1] * sin(angle);
        along[1] = shape[base] * sin(angle) + shape[base + 1] * cos(angle);
        along[2] = shape[base + 2];
        m->at[k] = along[d] + SPACING * (d == 0 ? number % lattice
                                         : d == 1 ? number / lattice % lattice
                                                  : number / lattice / lattice);
        bits = (bits ^ bits >> 29) * UINT64_C(0xd6e8feb86659fd93);
        m->speed[k] = ((double)(bits >> 11) / 4503599627370496.0 - 1) * .5;
        m->force[k] = 0;
    }
}

static int cell_of(const double *at) {
    int d, cell = 0;
    for (d = 2; d >= 0; d--) {
        double share = at[d] / box;
        int here = (int)((share - floor(share)) * in_row);
        cell = cell * in_row + (here < in_row ? here : in_row - 1);
    }
    return cell;
}

/* Finds the cells around one whose pairs with it are made at it, about half of them, each once. */
static int partners(int cell, int *found) {
    int way, i, n = 0, x = cell % in_row, y = cell / in_row % in_row, z = cell / in_row / in_row;
    for (way = 0; way < 27; way++) {
        int other = ((z + way / 9 + in_row - 1) % in_row * in_row + (y + way / 3 % 3 + in_row - 1) % in_row) *
                        in_row + (x + way % 3 + in_row - 1) % in_row;
        for (i = 0; i < n && found[i] != other; i++) {}
        if (i == n && other != cell && (cell < other) == ((cell + other) % 2 == 0)) found[n++] = other;
    }
    return n;
}

static void push(int cell, int number) {
    gl->next[number] = gl->first[cell];
    gl->first[cell] = number;
}

/* A worker's own: its cells, forces by molecule, cells that they belong to, molecules that leave. */
typedef struct {
    int from, to, leaving;
    double (*force)[9];
    char *touched;
    int *leavers;
} own_state;

/* Adds the forces of this worker's pairs to those of all; returns their energy. */
static double add_forces(own_state *own) {
    double energy = 0;
    int cell, other, a, b, k, n, turn, around[27];
    for (cell = own->from; cell < own->to; cell++) {
        n = partners(cell, around);
        own->touched[cell] = 1;
        for (k = 0; k < n; k++) own->touched[around[k]] = 1;
        for (a = gl->first[cell]; a >= 0; a = gl->next[a]) {
            const double *at = gl->all[a].at;
            energy += springs(at, own->force[a]);
            for (b = gl->next[a]; b >= 0; b = gl->next[b])
                energy += pair(at, gl->all[b].at, own->force[a], own->force[b]);
            for (k = 0; k < n; k++)
                for (b = gl->first[around[k]]; b >= 0; b = gl->next[b])
                    energy += pair(at, gl->all[b].at, own->force[a], own->force[b]);
        }
    }
    /* First its own cells, so that not all workers wait for the same lock. */
    for (turn = 0; turn < cells; turn++) {
        other = (own->from + turn) % cells;
        if (!own->touched[other]) continue;
        own->touched[other] = 0;
        ALOCK(gl->cell_locks, other % LOCKS);
        for (a = gl->first[other]; a >= 0; a = gl->next[a])
            for (k = 0; k < 9; k++) {
                gl->all[a].force[k] += own->force[a][k];
                own->force[a][k] = 0;
            }
        AULOCK(gl->cell_locks, other % LOCKS);
    }
    return energy;
}

/* Moves the molecules of this worker's cells, and takes those out that leave their cell. */
static void move_own(own_state *own) {
    int cell;
    own->leaving = 0;
    for (cell = own->from; cell < own->to; cell++) {
        int *link = &gl->first[cell];
        while (*link >= 0) {
            molecule *m = &gl->all[*link];
            kick(m);
            move(m);
            if (cell_of(m->at) == cell) {
                link = &gl->next[*link];
            } else {
                own->leavers[own->leaving++] = *link;
                *link = gl->next[*link];
            }
        }
    }
}

static void work(void) {
    own_state own;
    int me, step, cell, i;
    LOCK(gl->id_lock);
    me = gl->id++;
    UNLOCK(gl->id_lock);
    own.from = (int)((long)cells * me / workers);
    own.to = (int)((long)cells * (me + 1) / workers);
    own.force = (double(*)[9])calloc(count, sizeof *own.force);
    own.touched = (char *)calloc(cells, 1);
    own.leavers = (int *)calloc(count, sizeof(int));
    for (cell = own.from; cell < own.to; cell++) gl->first[cell] = -1;
    for (i = 0; i < count; i++) {
        molecule m;
        place(&m, i);
        cell = cell_of(m.at);
        if (cell < own.from || cell >= own.to) continue;
        gl->all[i] = m;
        push(cell, i);
    }
    BARRIER(gl->step, workers);
    add_forces(&own);
    BARRIER(gl->step, workers);
    if (me == 0) CLOCK(gl->began);
    for (step = 0; step < steps; step++) {
        double energy;
        move_own(&own);
        BARRIER(gl->step, workers);
        for (i = 0; i < own.leaving; i++) {
            cell = cell_of(gl->all[own.leavers[i]].at);
            ALOCK(gl->cell_locks, cell % LOCKS);
            push(cell, own.leavers[i]);
            AULOCK(gl->cell_locks, cell % LOCKS);
        }
        BARRIER(gl->step, workers);
        energy = add_forces(&own);
        BARRIER(gl->step, workers);
        for (cell = own.from; cell < own.to; cell++)
            for (i = gl->first[cell]; i >= 0; i = gl->next[i]) energy += kick(&gl->all[i]);
        LOCK(gl->sum_lock);
        gl->energy[step] += energy;
        UNLOCK(gl->sum_lock);
        BARRIER(gl->step, workers);
    }
    if (me == 0) CLOCK(gl->ended);
    free(own.force);
    free(own.touched);
    free(own.leavers);
}

/* Largest difference, in parts of the largest value, to the same steps by all pairs and without
 * cells. */
static double difference(void) {
    molecule *all = (molecule *)calloc(count, sizeof *all);
    double worst = 0, far[2] = {0, 0}, most[2] = {0, 0};
    int a, b, k, step;
    if (all == NULL) return HUGE_VAL;
    for (a = 0; a < count; a++) place(&all[a], a);
    for (step = -1; step < steps; step++) {
        double energy = 0;
        for (a = 0; a < count && step >= 0; a++) {
            kick(&all[a]);
            move(&all[a]);
        }
        for (a = 0; a < count; a++) {
            energy += springs(all[a].at, all[a].force);
            for (b = 0; b < a; b++) energy += pair(all[a].at, all[b].at, all[a].force, all[b].force);
        }
        if (step < 0) continue;
        for (a = 0; a < count; a++) energy += kick(&all[a]);
        worst = fmax(worst, fabs(gl->energy[step] / energy - 1));
    }
    for (a = 0; a < count; a++)
        for (k = 0; k < 9; k++) {
            const double serial[2] = {all[a].at[k], all[a].force[k]};
            const double found[2] = {gl->all[a].at[k], gl->all[a].force[k]};
            for (b = 0; b < 2; b++) {
                if (!(fabs(found[b] - serial[b]) <= far[b])) far[b] = fabs(found[b] - serial[b]);
                most[b] = fmax(most[b], fabs(serial[b]));
            }
        }
    free(all);
    return worst + far[0] / most[0] + far[1] / most[1];
}

int main(int argc, char **argv) {
    int at, right, lattice;
    double far, drift;
    MAIN_INITENV(, 80000000)
    workers = argc > 1 ? atoi(argv[1]) : 2;
    count = argc > 2 ? atoi(argv[2]) : 512;
    steps = argc > 3 ? atoi(argv[3]) : 6;
    if (workers < 1 || count < 8 || steps < 1 || steps > MAX_STEPS) {
        fprintf(stderr, "usage: water [WORKERS [MOLECULES [STEPS]]], 8 molecules at least, %d steps at "
                        "most\n", MAX_STEPS);
        exit(2);
    }
    for (lattice = 2; lattice * lattice * lattice < count; lattice++) {}
    box = lattice * SPACING;
    cut_off = fmin(.48 * box, 1);
    in_row = (int)(box / cut_off);
    cells = in_row * in_row * in_row;
    gl = (shared *)G_MALLOC(sizeof *gl);
    gl->first = (int *)G_MALLOC(cells * sizeof(int));
    gl->next = (int *)G_MALLOC(count * sizeof(int));
    gl->all = (molecule *)G_MALLOC(count * sizeof(molecule));
    LOCKINIT(gl->id_lock);
    LOCKINIT(gl->sum_lock);
    ALOCKINIT(gl->cell_locks, LOCKS);
    BARINIT(gl->step, workers);
    for (at = 0; at < steps; at++) gl->energy[at] = 0;
    gl->id = 0;
    CREATE(work, workers);
    WAIT_FOR_END(workers);
    far = difference();
    drift = fabs(gl->energy[steps - 1] / gl->energy[0] - 1);
    right = far < MAX_DIFFERENCE && drift < MAX_DRIFT;
    printf("seconds %.6f\n", (gl->ended - gl->began) / 1e6);
    printf("water of %d molecules by %d workers is %s, difference %.2g, drift %.2g\n", count, workers,
           right ? "right" : "WRONG", far, drift);
    fflush(stdout);
    if (!right) exit(1);
    MAIN_END;
}
