/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.h: the same model on the host, without cells, lists and ranks: every pair is looked at.
 */
#ifndef MINIMD_HOST_H
#define MINIMD_HOST_H

/* The distance from b to a over the nearest way around the box. */
inline double3 nearest(const double3 &a, const double3 &b, const struct block &block)
{
    double3 d = difference(a, b);
    d.x -= block.length[0] * round(d.x / block.length[0]);
    d.y -= block.length[1] * round(d.y / block.length[1]);
    d.z -= block.length[2] * round(d.z / block.length[2]);
    return d;
}

/* Forces and the potential energy. */
inline double sum_forces_on_host(const std::vector<double3> &x, const struct block &block,
                                 std::vector<double3> &force)
{
    double energy = 0;
    std::fill(force.begin(), force.end(), make_double3(0, 0, 0));
    for (size_t i = 0; i < x.size(); i++) {
        for (size_t j = 0; j < i; j++) {
            double3 d = nearest(x[i], x[j], block);
            double r2 = square(d);
            if (r2 < CUTOFF * CUTOFF) {
                force[i] = moved(force[i], pair_force(r2), d);
                force[j] = moved(force[j], -pair_force(r2), d);
                energy += pair_energy(r2);
            }
        }
    }
    return energy;
}

/* Moves the atoms by n_steps; sets the kinetic and the potential energy per atom. */
inline void run_on_host(std::vector<double3> &x, std::vector<double3> &v, const struct block &block,
                        int n_steps, double *energy)
{
    std::vector<double3> force(x.size());
    energy[0] = 0;
    energy[1] = sum_forces_on_host(x, block, force);
    for (int step = 0; step < n_steps; step++) {
        for (size_t i = 0; i < x.size(); i++) {
            v[i] = moved(v[i], TIME_STEP / 2, force[i]);
            x[i] = moved(x[i], TIME_STEP, v[i]);
        }
        energy[1] = sum_forces_on_host(x, block, force);
        for (size_t i = 0; i < x.size(); i++) {
            v[i] = moved(v[i], TIME_STEP / 2, force[i]);
        }
    }
    for (const double3 &a : v) {
        energy[0] += square(a) / 2;
    }
    energy[0] /= (double)x.size();
    energy[1] /= (double)x.size();
}

#endif
