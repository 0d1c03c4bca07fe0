if [[ "$OSTYPE" == "darwin"* ]]; then
    export USE_CUDA=0
elif [[ ${cuda_compiler_version} != "None" ]]; then
    if [[ "${CI}" == "azure" ]]; then
        export MAX_JOBS=1
    fi
    if [[ "${arm_variant_type}" == "tegra" ]]; then
        export TORCH_CUDA_ARCH_LIST="8.7+PTX"
    else
        case ${cuda_compiler_version} in
            12.[89])
                export TORCH_CUDA_ARCH_LIST="7.0;9.0+PTX"
                ;;
            13.0)
                if [[ "${target_platform}" == "linux-aarch64" ]]; then
                    export TORCH_CUDA_ARCH_LIST="8.7;9.0+PTX"
                else
                    export TORCH_CUDA_ARCH_LIST="9.0+PTX"
                fi
                ;;
            *)
                exit 1
        esac
    fi
else
    export TORCH_CUDA_ARCH_LIST=""
fi
