ringfence_fuzz(case case_reader.cpp ringfence_cases)
