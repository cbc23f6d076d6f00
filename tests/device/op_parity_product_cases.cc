#include "tests/device/op_parity_cases.h"

// Einsum, whose fast kernel takes what is a stack of matrix products.

namespace cohort {

std::vector<OpCase> EinsumOpCases() {
  struct Equation {
    const char* equation;
    std::vector<OpInput> inputs;
    Shape result;
  };
  std::vector<OpCase> cases;
  for (const Equation& each :
       std::vector<Equation>{{"ij,jk->ik", {{{33, 17}}, {{17, 29}}}, {33, 29}},
                             {"ij,kj->ki", {{{33, 17}}, {{29, 17}}}, {29, 33}},
                             {"ji,kj->ik", {{{17, 33}}, {{29, 17}}}, {33, 29}},
                             {"bij,bjk->bik", {{{3, 5, 7}}, {{3, 7, 4}}}, {3, 5, 4}},
                             {"aecd,abcd->acbe", {{{2, 5, 3, 7}}, {{2, 6, 3, 7}}}, {2, 3, 6, 5}},
                             {"acbe,aecd->abcd", {{{2, 3, 6, 5}}, {{2, 5, 3, 7}}}, {2, 6, 3, 7}},
                             {"abc,cde->abde", {{{3, 4, 8}}, {{8, 2, 5}}}, {3, 4, 2, 5}},
                             {"abcd,cde->abe", {{{3, 4, 2, 5}}, {{2, 5, 8}}}, {3, 4, 8}},
                             {"aibj,jbk->kai", {{{3, 4, 2, 5}}, {{5, 2, 6}}}, {6, 3, 4}},
                             {"...ij,jk->...ik", {{{2, 3, 4, 5}}, {{5, 6}}}, {2, 3, 4, 6}},
                             {"...ij,...jk->...ik", {{{2, 1, 4, 5}}, {{3, 5, 6}}}, {2, 3, 4, 6}},
                             {"i,j->ij", {{{5}}, {{7}}}, {5, 7}},
                             {"ij,ij->ij", {{{5, 7}}, {{5, 7}}}, {5, 7}},
                             {"ij,ij->i", {{{5, 7}}, {{5, 7}}}, {5}},
                             {"i,i->", {{{5}}, {{5}}}, {}},
                             {"ii,ij->ij", {{{5, 5}}, {{5, 7}}}, {5, 7}},
                             {"ij,k->i", {{{5, 7}}, {{3}}}, {5}},
                             {"ij,jk->ik", {{{1, 1}}, {{1, 1}}}, {1, 1}},
                             {"ij,jk->ik", {{{3, 0}}, {{0, 4}}}, {3, 4}},
                             {"ij,jk->ik", {{{0, 3}}, {{3, 4}}}, {0, 4}}}) {
    const auto equation = StringAttribute("equation", each.equation);
    cases.push_back({kOnnx, "Einsum", each.inputs, {equation}, 1, {}, kLongSums});
    for (const int64_t operand : {0, 1}) {
      cases.push_back({kCohort,
                       "EinsumGrad",
                       {{each.result}, each.inputs[0], each.inputs[1]},
                       {equation, IntAttribute("operand", operand)},
                       1,
                       {},
                       kLongSums});
    }
  }
  cases.push_back({kOnnx, "Einsum", {{{4, 5, 4}}}, {StringAttribute("equation", "iji->ji")}});
  cases.push_back({kOnnx,
                   "Einsum",
                   {{{4, 5}}, {{5, 3}}, {{3, 2}}},
                   {StringAttribute("equation", "ab,bc,cd")},
                   1,
                   {},
                   kLongSums});
  cases.push_back({kOnnx,
                   "Einsum",
                   {{{4, 5}, OpFill::kLabel}, {{5, 3}, OpFill::kLabel}},
                   {StringAttribute("equation", "ab,bc")}});
  return cases;
}

}  // namespace cohort
