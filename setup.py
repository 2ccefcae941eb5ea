"""Package metadata; the templates folder at the top is installed as onnx_systemds/templates."""

import runpy
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent

setup(
    name="onnx-systemds",
    version=runpy.run_path(str(ROOT / "onnx_systemds" / "version.py"))["__version__"],  # needs no other package
    description="Bidirectional transpiler between ONNX and DML, the language of Apache SystemDS",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[*find_packages(include=["onnx_systemds", "onnx_systemds.*"]), "onnx_systemds.templates"],
    package_dir={"onnx_systemds.templates": "templates"},
    package_data={"onnx_systemds.templates": ["*.jinja", "operators/*.jinja", "library/*.dml"],
                  "onnx_systemds": ["py.typed"]},
    install_requires=[
        "onnx>=1.23,<2",
        "numpy>=2.0,<3",
        "ml_dtypes>=0.5,<1",
        "jinja2>=3.1,<4",
        "click>=8.1,<9",
    ],
    extras_require={
        "engine": ["systemds>=3.4,<3.5"],
        "files": ["pyarrow>=17"],
        "test": ["pytest>=8", "pytest-xdist>=3.5", "hypothesis>=6.100", "onnxruntime>=1.23", "setuptools>=70.1"],
        "pipelines": ["pandas>=2", "scikit-learn>=1.5", "skl2onnx>=1.19", "onnxmltools>=1.14", "xgboost-cpu>=2.1,<4",
                      "lightgbm>=4.3", "catboost>=1.2"],
        "spark": ["pyspark>=3.5.7,<3.6"],
        "pytorch": ["torch>=2.6", "onnxscript>=0.5", "keras>=3.10,<4"],
        "dev": ["ruff>=0.9", "mypy>=1.13", "mkdocs-material>=9.6,<10"],
    },
    entry_points={"console_scripts": ["onnx-systemds = onnx_systemds.__main__:run"]},
    keywords=["onnx", "systemds", "dml", "machine learning", "transpiler", "spark", "federated learning"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Software Development :: Code Generators",
        "Typing :: Typed",
    ],
)
