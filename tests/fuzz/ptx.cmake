ringfence_fuzz(ptx ptx_reader.cpp ringfence_ptx)
