#include "tests/device/gradient_cases.h"

// Einsum.

namespace cohort {

std::vector<GradientCase> EinsumGradientCases() {
  std::vector<GradientCase> cases;
  const auto add = [&](const char* name, const char* equation, std::vector<GradientInput> inputs) {
    cases.push_back({std::string("Einsum_") + name, std::move(inputs),
                     OneNode("Einsum", {StringAttribute("equation", equation)})});
  };
  add("matmul", "ij,jk->ik", {{{-1, 3}}, {{3, 2}}});
  add("stack", "bij, bjk -> bik", {{{-1, 2, 3}}, {{-1, 3, 2}}});
  add("heads", "aecd,abcd->acbe", {{{-1, 2, 2, 3}}, {{-1, 3, 2, 3}}});
  add("dense", "abc,cde->abde", {{{-1, 2, 3}}, {{3, 2, 2}}});
  add("transpose", "ijk->kij", {{{-1, 2, 3}}});
  add("sum", "ij->i", {{{-1, 3}}});
  add("sum_of_all", "ij->", {{{-1, 3}}});
  add("implied", "kj,ji", {{{2, 3}}, {{3, 4}}});
  add("implied_diagonal", "ii", {{{3, 3}}});
  add("diagonal", "bii->bi", {{{-1, 3, 3}}});
  add("trace_of_product", "ij,ji->", {{{2, 3}}, {{3, 2}}});
  add("label_of_one_factor", "ij,k->i", {{{-1, 3}}, {{2}}});
  add("outer", "i,j->ij", {{{-1}}, {{3}}});
  add("elementwise", "ij,ij->ij", {{{-1, 3}}, {{-1, 3}}});
  add("ellipsis", "...ij,...jk->...ik", {{{-1, 2, 2, 3}}, {{1, 2, 3, 2}}});
  add("ellipsis_broadcast", "...i,...i->...", {{{-1, 1, 3}}, {{1, 2, 3}}});
  add("ellipsis_summed", "i...,i...->i", {{{2, 3}}, {{2, 1}}});
  add("extent_one", "ij,jk->ik", {{{-1, 1}}, {{3, 2}}});
  add("three", "ij,jk,ki->j", {{{2, 3}}, {{3, 4}}, {{4, 2}}});
  add("scalar", ",i->i", {{{}}, {{3}}});
  add("ones", "ij,jk->ik", {{{1, 1}}, {{1, 1}}});
  add("empty_sum", "ij,jk->ik", {{{2, 0}}, {{0, 3}}});
  add("empty", "ij,jk->ik", {{{0, 2}}, {{2, 3}}});
  return cases;
}

}  // namespace cohort
