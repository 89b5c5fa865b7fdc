/* Tessera for C++17: owners that close themselves, operators, exceptions that name the caller's
 * source line.
 *
 *   tessera::runtime rt("cpu:8");
 *   tessera::mesh mesh(rt, "x=2,y=4");
 *   tessera::scope s(rt);
 *   tessera::array x = s.put(data, { 8, 8 }, mesh.on("x,y"));
 *   double total = ((x * 2 + 1) / x.mean()).sum().value();
 *
 * runtime and scope own; mesh, array, frame, row and table are handles as in C and live as long as
 * their owner (base.h). A wrong call throws tessera::error with the status, and the scope forgets
 * the error. Source lines come from std::source_location, or before C++20 from the compiler; an
 * operator has the line of its right operand. `raw()` returns the handle for calls of the C
 * interface.
 *
 * Operations are functions of their C name without tsr_ (tessera::take). Reductions of one array
 * are members (x.sum({ 0 })), and calls that make arrays are members of the scope. Calls with many
 * options take C's struct of arguments, filled in as far as needed; arrays that are parameters here
 * are set in it. */
#ifndef TESSERA_HPP
#define TESSERA_HPP

#include "tessera.h"
#include "tessera/array.hpp"
#include "tessera/dlpack.hpp"
#include "tessera/elementwise.hpp"
#include "tessera/frame.hpp"
#include "tessera/functions.hpp"
#include "tessera/indexing.hpp"
#include "tessera/loops.hpp"
#include "tessera/mapping.hpp"
#include "tessera/operations.hpp"
#include "tessera/products.hpp"
#include "tessera/random.hpp"
#include "tessera/scope.hpp"
#include "tessera/shape.hpp"
#include "tessera/sorting.hpp"
#include "tessera/sources.hpp"
#include "tessera/statistics.hpp"
#include "tessera/training.hpp"
#include "tessera/trees.hpp"
#include "tessera/windows.hpp"

#endif
