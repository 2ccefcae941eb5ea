"""The words of DML that a generated name must stay clear of.

`RESERVED_WORDS` cannot be identifiers at all (grammar keywords, value types, constants). The names of builtin
functions may be variables, but confuse the reader; as functions they replace the builtin in the whole script.
"""

from __future__ import annotations

from onnx_systemds.dml.syntax import CONSTANTS
from onnx_systemds.dml.tokens import KEYWORDS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED_WORDS = KEYWORDS.union(CONSTANTS)

# Spellings of constants in neighbouring languages: legal in DML, but read as something they are not.
CONFUSING_WORDS: frozenset[str] = _words("True False true false Null NULL null None NA nan inf Infinity")

# Handled by the parser instead of the builtin table of the engine.
STATEMENT_FUNCTIONS: frozenset[str] = _words(
    """
    print stop assert write read readMM read.csv rand matrix frame tensor scalar sql federated
    """
)

# What the engine tells of a variable without its content.
SIZE_FUNCTIONS: frozenset[str] = _words("nrow ncol length")

# Every name and alias in the enumeration org.apache.sysds.common.Builtins of SystemDS 3.4.0.
BUILTIN_FUNCTIONS: frozenset[str] = _words(
    """
    FDR WoE WoEApply abs abstain acos adasyn aggregate als alsCG alsDS alsPredict alsTopkPredict ampute
    append applySchema apply_pipeline arima as.boolean as.double as.frame as.integer as.list as.logical
    as.matrix as.scalar asin atan auc autoDiff autoencoder_2layer avg avg_pool avg_pool_backward bandit
    batch_norm2d batch_norm2d_backward bias_add bias_multiply bitwAnd bitwOr bitwShiftL bitwShiftR
    bitwXor bivar castAsScalar cbind cdf ceil ceiling centralMoment cholesky colCountDistinct
    colCountDistinctApprox colMaxs colMeans colMins colProds colSds colSums colVars colnames components
    compress confusionMatrix contains conv2d conv2d_backward_data conv2d_backward_filter
    cooccurrenceMatrix cor correctTypos correctTyposApply cos cosh countDistinct countDistinctApprox cov
    cox cspline csplineCG csplineDS ctable cummax cummin cumprod cumsum cumsumprod cvlm dbscan
    dbscanApply decisionTree decisionTreePredict decompress dedup deepWalk denialConstraints det
    detectSchema diag differenceStatistics discoverFD dist dmv dropInvalidLength dropInvalidType eigen
    einsum ema eval evalList executePipeline exists exp f1Score fdr ffPredict ffTrain fft fft_linearized
    fit_pipeline fixInvalidLengths fixInvalidLengthsApply flattenQuantile floor frameSort freplicate
    frequencyEncode frequencyEncodeApply garch gaussianClassifier getAccuracy getCategoricalMask glm
    glmPredict glove gmm gmmPredict gnmf gridSearch groupedAggregate hospitalResidencyMatch hyperband
    icdf ifelse ifft ifft_linearized img_brightness img_brightness_linearized img_crop
    img_crop_linearized img_cutout img_cutout_linearized img_invert img_invert_linearized img_mirror
    img_mirror_linearized img_posterize img_posterize_linearized img_rotate img_rotate_linearized
    img_sample_pairing img_sample_pairing_linearized img_shear img_shear_linearized img_transform
    img_transform_linearized img_translate img_translate_linearized impurityMeasures imputeByFD
    imputeByFDApply imputeByKNN imputeByMean imputeByMeanApply imputeByMedian imputeByMedianApply
    imputeByMode imputeByModeApply incSliceLine independentSubnetTrain interQuantile interQuartileMean
    intersect inv inverse is.infinite is.na is.nan isInf isNA isNaN km kmeans kmeansPredict knn knnGraph
    knnbf l2svm l2svmPredict lasso lenetPredict lenetTrain length lineage list lm lmCG lmDS lmPredict
    lmPredictStats local log logSumExp lower.tri lstm lstm_backward lu mae map mape matrixProfile max
    max_pool max_pool_backward mcc mdedup mean median mice miceApply min moment mse msmape msvm
    msvmPredict multiLogReg multiLogRegPredict na_locf naiveBayes naiveBayesPredict ncol normalize
    normalizeApply nrmse nrow order outer outlier outlierByArima outlierByIQR outlierByIQRApply
    outlierBySd outlierBySdApply pageRank paramserv pca pcaInverse pcaTransform pchisq pexp pf pmax pmin
    pnmf pnorm ppca ppred prod psnr pt qchisq qexp qf qnorm qr qt quantile quantizeByCluster
    quantize_compress raGroupby raJoin raSelection randomForest randomForestPredict range rbind rcm
    remove removeEmpty replace rev rmse roll round rowClassMeet rowCountDistinct rowCountDistinctApprox
    rowIndexMax rowIndexMin rowMaxs rowMeans rowMins rowProds rowSds rowSums rowVars rowcumsum sample
    scale scaleApply scaleMinMax scaleRobust scaleRobustApply sd selectByVarThresh seq ses setdiff
    shapExplainer sherlock sherlockPredict shortestPath sigmoid sign sin sinh skewness sliceLine
    sliceLineDebug sliceLineExtract slicefinder smape smote softmax solve split splitBalanced sqrt
    sqrtMatrix sqrtMatrixJava stableMarriage statsNA steplm stft stratstats sum svd symmetricDifference
    t tSNE table tan tanh time toOneHot toString tokenize tomeklink topk_cleaning tr trace
    transformapply transformcolmap transformdecode transformencode transformmeta typeof underSampling
    union unique univar upper.tri valueSwap var vectorToCsv wer winsorize winsorizeApply xdummy1 xdummy2
    xgboost xgboostPredict xgboostPredictClassification xgboostPredictRegression xor
    """
)

# Names the generated scripts use themselves.
OWN_WORDS: frozenset[str] = frozenset({"weights"})

AVOIDED_WORDS: frozenset[str] = (
    RESERVED_WORDS | CONFUSING_WORDS | STATEMENT_FUNCTIONS | BUILTIN_FUNCTIONS | OWN_WORDS
)
