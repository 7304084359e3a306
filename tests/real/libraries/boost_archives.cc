// SPDX-License-Identifier: BSD-3-Clause
//
// Shows: objects of registered classes travel through the system's Boost.Serialization from rank to rank: its
// registries are static objects of the shared library, filled by the program's constructors and emptied by
// its destructors.
#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/archive/text_iarchive.hpp>
#include <boost/archive/text_oarchive.hpp>
#include <boost/serialization/base_object.hpp>
#include <boost/serialization/export.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <mpi.h>
#include <sstream>
#include <string>
#include <vector>

struct shape {
    virtual ~shape() {}
    virtual double area() const = 0;
    template <class archive> void serialize(archive &, unsigned) {}
};

struct square : shape {
    double side = 0;
    double area() const override { return side * side; }
    template <class archive> void serialize(archive &ar, unsigned)
    {
        ar &boost::serialization::base_object<shape>(*this) & side;
    }
};

struct named : shape {
    std::string name;
    std::map<int, std::string> table;
    double area() const override { return static_cast<double>(name.size() + table.size()); }
    template <class archive> void serialize(archive &ar, unsigned)
    {
        ar &boost::serialization::base_object<shape>(*this) & name & table;
    }
};

BOOST_CLASS_EXPORT(square)
BOOST_CLASS_EXPORT(named)

template <class output, class input> static void exchange(int rank, int size)
{
    std::vector<shape *> shapes;
    square *a = new square;
    named *b = new named;
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, bytes;

    a->side = rank + 1;
    b->name = std::string(static_cast<size_t>(rank + 1), 'x');
    b->table[rank] = "rank";
    shapes.push_back(a);
    shapes.push_back(b);

    std::ostringstream out;
    {
        output archive(out);
        archive << shapes;
    }
    std::string text = out.str();
    MPI_Request request;
    MPI_Status status;
    MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, next, 1, MPI_COMM_WORLD, &request);
    MPI_Probe(previous, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::string got(static_cast<size_t>(bytes), ' ');
    MPI_Recv(&got[0], bytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    std::vector<shape *> received;
    std::istringstream in(got);
    {
        input archive(in);
        archive >> received;
    }
    double side = previous + 1;
    if (received.size() != 2 || received[0]->area() != side * side || received[1]->area() != side + 1) {
        std::printf("rank %d: wrong objects of rank %d\n", rank, previous);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (shape *s : shapes)
        delete s;
    for (shape *s : received)
        delete s;
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 5; round++) {
        exchange<boost::archive::text_oarchive, boost::archive::text_iarchive>(rank, size);
        exchange<boost::archive::binary_oarchive, boost::archive::binary_iarchive>(rank, size);
    }
    if (rank == 0)
        std::puts("ok");
    MPI_Finalize();
    return 0;
}
