if not "%cuda_compiler_version%" == "None" (
    REM a comment (
    if "%cuda_compiler_version:~0,2%"=="12" (
        set "TORCH_CUDA_ARCH_LIST=7.0;9.0+PTX"
    ) else if "%cuda_compiler_version%" == "13.0" (
        set "TORCH_CUDA_ARCH_LIST=9.0;12.0+PTX"
    ) else (
        exit /b 1
    )
) else (
    set "TORCH_CUDA_ARCH_LIST="
)
