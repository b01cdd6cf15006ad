"""The numbers behind a law F(v | x) = sum_j w_j(x) 1{V_j <= v}."""
